"""Time, memory and error of the transport and its gradient against iterations (GSP, Fig. 7 left).

Three ways to the gradient of the plan with respect to the costs: the fixed point of Prop. 4.2 under
automatic differentiation, the same with the closed form of Prop. 4.3, and the closed form with
Newton. The times of a seed are medians of interleaved rounds; memory is that of a fresh process
(Linux). Errors are those of float32 against the converged solution in float64.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from gsp_tf.ops import partial_transport
from gsp_tf.visual import INK, run_style, transparent_figure

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from measure import in_fresh_processes, medians, peak_bytes  # noqa: E402

DIMENSIONS, NEAR, SPREAD = 128, 0.5, 0.3
FORWARD, TOTAL, BACKWARD = "forward, ms", "forward + backward, ms", "difference, ms"
RATIO, PEAK = "both, times Newton's", "peak, MiB"
WEIGHT_ERROR, GRADIENT_ERROR = "error of weights", "error of gradient"
PANELS = {
    TOTAL: "forward + backward, ms (dotted: forward)",
    PEAK: "peak memory of forward + backward, MiB",
    WEIGHT_ERROR: "relative error of the weights",
    GRADIENT_ERROR: "relative error of the gradient",
}


def automatic(cost, transport_ratio, entropy_smoothing, max_iterations):
    """Residual and plan by the iteration of Prop. 4.2 in plain TensorFlow, from ρ = 1/n.

    With `s_j = Σ_i exp(-ε c_ij)`, summed once: `t = μ / Σ_j s_j ρ_j`, `ρ_j = (1/n) / (1 + t s_j)`,
    and in the end `π_ij = t ρ_j exp(-ε c_ij)`. The paper prints the bracket of ρ not inverted.
    """
    n = cost.shape[-1]
    kernel = tf.exp(-entropy_smoothing * cost)
    s = tf.reduce_sum(kernel, axis=-2)

    def factor(residual):
        return transport_ratio / tf.reduce_sum(s * residual, axis=-1, keepdims=True)

    def advance(iteration, t):
        return iteration + 1, factor(1 / (n * (1 + t * s)))

    start = (0, factor(tf.ones_like(s) / n))
    _, t = tf.while_loop(lambda *_: True, advance, start, maximum_iterations=max_iterations)
    residual = 1 / (n * (1 + t * s))
    return residual, (t * residual)[..., None, :] * kernel


WAYS = {
    "automatic differentiation": automatic,
    "closed form, fixed point": partial(partial_transport, solver="fixed_point"),
    "closed form, Newton": partial(partial_transport, solver="newton"),
}


def costs(shape, seed):
    """Distances `(B, m, n)` of unit features from unit prototypes, half of them close to one."""
    batch, m, n = shape
    rng = np.random.default_rng(seed)
    prototypes = _unit(rng.normal(size=(m, DIMENSIONS)))
    features = _unit(rng.normal(size=(batch, n, DIMENSIONS)))
    near = prototypes[rng.integers(m, size=(batch, n))] + SPREAD * features
    features = _unit(np.where(rng.random((batch, n, 1)) < NEAR, near, features))
    return np.sqrt(2 - 2 * prototypes @ features.swapaxes(-1, -2)).astype(np.float32)


def _unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def upstream(shape, seed):
    """Gradients with respect to residual and plan, normal numbers `(B, n)` and `(B, m, n)`."""
    rng = np.random.default_rng((seed, 1))
    return [rng.normal(size=size).astype(np.float32) for size in ((shape[0], shape[2]), shape)]


def forward(transport, shape):
    """Graph from cost and upstream to residual and plan."""
    return _graph(lambda cost, *upstream: transport(cost), shape)


def forward_and_backward(transport, shape, dtype="float32"):
    """Graph from cost and upstream to the gradient with respect to the cost, and the plan."""

    def run(cost, *upstream):
        with tf.GradientTape() as tape:
            tape.watch(cost)
            outputs = transport(cost)
        return tape.gradient(outputs, cost, output_gradients=upstream), outputs[1]

    return _graph(run, shape, dtype)


def _graph(function, shape, dtype="float32"):
    batch, _, n = shape
    signature = [tf.TensorSpec(size, dtype) for size in (shape, (batch, n), shape)]
    return tf.function(function, autograph=False).get_concrete_function(*signature)


def times(iterations, shape, parameters, seed, rounds):
    """Milliseconds by way and iterations, a pair (forward, forward and backward)."""
    functions = {}
    for name, way in WAYS.items():
        for k in iterations:
            transport = partial(way, **parameters, max_iterations=k)
            functions[name, k, FORWARD] = forward(transport, shape)
            functions[name, k, TOTAL] = forward_and_backward(transport, shape)
    arguments = [tf.constant(array) for array in (costs(shape, seed), *upstream(shape, seed))]
    taken = medians(functions, arguments, rounds)
    return {(n, k): (taken[n, k, FORWARD], taken[n, k, TOTAL]) for n in WAYS for k in iterations}


def peak(name, k, shape, parameters, seed):
    """Peak bytes of forward and backward, beyond those of a single item."""
    transport = partial(WAYS[name], **parameters, max_iterations=k)
    run = forward_and_backward(transport, (None, *shape[1:]))
    arguments = [tf.constant(array) for array in (costs(shape, seed), *upstream(shape, seed))]
    run(*(array[:1] for array in arguments))[0].numpy()
    return peak_bytes(lambda: run(*arguments)[0].numpy())


def errors(iterations, shape, parameters, seed):
    """Relative errors, in the 2-norm, of weights and gradient by way and iterations."""
    cost, gradients = costs(shape, seed), upstream(shape, seed)

    def solve(way, dtype, **arguments):
        run = forward_and_backward(partial(way, **parameters, **arguments), shape, dtype)
        gradient, plan = run(*(tf.constant(array, dtype) for array in (cost, *gradients)))
        return plan.numpy().sum(axis=-2), gradient.numpy()

    exact = solve(partial_transport, "float64")
    return {
        (name, k): tuple(
            np.linalg.norm(value - best) / np.linalg.norm(best)
            for value, best in zip(solve(way, "float32", max_iterations=k), exact, strict=True)
        )
        for name, way in WAYS.items()
        for k in iterations
    }


def study(
    seeds: tuple[int, ...] = (0, 1, 2),
    iterations: tuple[int, ...] = (1, 2, 5, 10, 25, 50, 100),
    shape: tuple[int, int, int] = (32, 64, 196),
    transport_ratio: float = 0.3,
    entropy_smoothing: float = 5.0,
    rounds: int = 30,
):
    """`shape` is items of a batch, prototypes and features; rounds are beside those of the
    warm-up."""
    parameters = dict(transport_ratio=transport_ratio, entropy_smoothing=entropy_smoothing)
    rows = []
    for seed in seeds:
        of_time = times(iterations, shape, parameters, seed, rounds)
        of_error = errors(iterations, shape, parameters, seed)
        tasks = [(name, k, shape, parameters, seed) for name, k in of_time]
        of_memory = dict(zip(of_time, in_fresh_processes(peak, tasks), strict=True))
        newton = of_time["closed form, Newton", iterations[-1]][1]
        for (name, k), (forward_ms, total_ms) in of_time.items():
            weight_error, gradient_error = of_error[name, k]
            numbers = {
                FORWARD: forward_ms,
                TOTAL: total_ms,
                BACKWARD: total_ms - forward_ms,
                RATIO: total_ms / newton,
                PEAK: of_memory[name, k] / 2**20,
                WEIGHT_ERROR: weight_error,
                GRADIENT_ERROR: gradient_error,
            }
            rows += [(f"{name}, k = {k}", seed, *item) for item in numbers.items()]
    return rows, {}


def draw(values):
    """Times, memory and errors against the iterations; means over seeds."""
    iterations = sorted({int(name.rpartition(" ")[2]) for name in values})
    figure = transparent_figure(8.4, 5.6)
    figure.set_layout_engine("constrained")
    panels = dict(zip(PANELS, figure.subplots(2, 2).flat, strict=True))
    for position, name in enumerate(WAYS):
        rows = [values[f"{name}, k = {k}"] for k in iterations]
        color, marker = run_style(position)
        for quantity, line in [*((quantity, "-") for quantity in panels), (FORWARD, ":")]:
            axes = panels.get(quantity, panels[TOTAL])
            means = [np.mean(list(row[quantity].values())) for row in rows]
            axes.plot(iterations, means, line, color=color, marker=marker, ms=4, label=name)
    for quantity, axes in panels.items():
        axes.set_title(PANELS[quantity], color=INK, fontsize=10)
        axes.set_xlabel("iterations k, at most", color=INK, fontsize=8)
        axes.set_xscale("log")
        axes.set_xticks(iterations, [str(k) for k in iterations])
        axes.minorticks_off()
        if quantity in (WEIGHT_ERROR, GRADIENT_ERROR):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.tick_params(colors=INK, labelsize=8)
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    panels[PEAK].legend(fontsize=8, labelcolor=INK, frameon=False)
    return {"backward_cost": figure}
