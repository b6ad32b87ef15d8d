"""What generalized sum pooling costs, in time, memory and growth.

`.venv/bin/python benchmarks/gsp.py` prints three tables, all of outputs and gradients: times beside
a 1x1 convolution with m filters and average pooling, and beside the paper's formulation (100
iterations of Prop. 4.2 under automatic differentiation), medians of a run in which all take turns;
peak memory beside its bound (Linux); and how the time grows while B, the places, C or m grow from
1 to 10 times their size.
"""

import ctypes
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from measure import in_fresh_processes, medians, peak_bytes
from rich.console import Console
from rich.table import Table

from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.ops import lipschitz_normalize, pairwise_distances

sys.path.append(str(Path(__file__).parents[1] / "experiments/studies"))

from backward_cost import automatic  # noqa: E402

ROUNDS = 25
# (B, places, C, m), and whether the paper's formulation is timed too.
SHAPES = {(32, 49, 128, 64): True, (128, 64, 512, 64): True, (32, 784, 512, 128): False}
MODES = {"XLA": True, "no XLA": False}
ITERATIONS = 100
SMALL = (16, 100, 128, 32)
GROWTH = (1, 2, 5, 10)
SOLVERS = ("newton", "fixed_point")
M_MMAP_THRESHOLD = -3


def convolution(channels, m):
    """Pooled values of m filters, and their weights."""
    layers = [keras.layers.Conv2D(m, 1), keras.layers.GlobalAveragePooling2D()]
    model = keras.Sequential([keras.Input((None, None, channels)), *layers])
    return model, model.trainable_weights


def pooling(channels, m, solver="newton"):
    """Pooled features and attributes of the layer, and its prototypes."""
    layer = GeneralizedSumPooling(m, solver=solver, return_attributes=True)
    layer.build((None, None, None, channels))
    return layer, layer.trainable_weights


def paper(channels, m):
    """The same by the paper's iteration, each step with the gradient of its own."""
    layer, weights = pooling(channels, m)

    def pool(maps):
        features = tf.reshape(maps, (maps.shape[0], -1, channels))
        cost = pairwise_distances(
            lipschitz_normalize(layer.prototypes), lipschitz_normalize(features)
        )
        ratio = layer.transport_ratio
        plan = automatic(cost, ratio, layer.entropy_smoothing, ITERATIONS)[1] / ratio
        pooled = tf.linalg.matvec(features, tf.reduce_sum(plan, axis=1), transpose_a=True)
        return pooled, tf.reduce_sum(plan, axis=2)

    return pool, weights


def value_and_gradient(pool, weights, jit_compile):
    """Gradients to maps and weights for given gradients of the outputs, and the outputs."""
    weights = [weight.value for weight in weights]

    def run(maps, *upstream):
        with tf.GradientTape() as tape:
            tape.watch(maps)
            outputs = pool(maps)
        upstream = list(upstream) if isinstance(outputs, tuple) else upstream[1]
        return tape.gradient(outputs, [maps, *weights], output_gradients=upstream), outputs

    return tf.function(run, jit_compile=jit_compile, autograph=False)


def arguments_of(shape):
    """Maps that are not negative, as after a ReLU, and gradients of both outputs."""
    batch, places, channels, m = shape
    side = max(side for side in range(1, int(places**0.5) + 1) if places % side == 0)
    rng = np.random.default_rng(0)
    maps = rng.exponential(size=(batch, side, places // side, channels))
    upstream = [rng.normal(size=(batch, size)) for size in (channels, m)]
    return [tf.constant(array, "float32") for array in (maps, *upstream)]


def times(shape, makers, jit_compile):
    functions = {
        make.__name__: value_and_gradient(*make(*shape[2:]), jit_compile) for make in makers
    }
    return medians(functions, arguments_of(shape), ROUNDS)


def memory(shape):
    """Peak bytes of a call beyond what it returns, by mode and solver."""
    # Every larger buffer is returned when it is freed, so that the first call leaves none.
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**14)
    arguments = arguments_of(shape)
    peaks = {}
    for mode, jit_compile in MODES.items():
        for solver in SOLVERS:
            run = value_and_gradient(*pooling(*shape[2:], solver), jit_compile)
            returned = sum(4 * tf.size(array).numpy() for array in tf.nest.flatten(run(*arguments)))
            peaks[mode, solver] = peak_bytes(lambda run=run: run(*arguments)[0][0].numpy())
            peaks[mode, solver] -= returned
    return peaks


def named(shape):
    return "{} x {} x {}, {}".format(*shape)


def times_table():
    table = Table(title="Value and gradient, milliseconds; GSP's ratio to the other two")
    columns = ("B x places x C, m", "", "convolution", "paper", "GSP", "/ convolution", "/ paper")
    for column in columns:
        table.add_column(column, justify="left" if column in columns[:2] else "right")
    for mode, jit_compile in MODES.items():
        for shape, with_paper in SHAPES.items():
            makers = (convolution, paper, pooling) if with_paper else (convolution, pooling)
            taken = times(shape, makers, jit_compile)
            cells = [f"{taken[make.__name__]:.2f}" for make in makers]
            ratios = [f"{taken['pooling'] / taken[make.__name__]:.2f}" for make in makers[:-1]]
            if not with_paper:
                cells.insert(1, "")
                ratios.append("")
            table.add_row(named(shape), mode, *cells, *ratios)
    return table


def memory_table():
    # Without oneDNN, whose allocator keeps what is freed, the system sees every buffer.
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    found = in_fresh_processes(memory, [(shape,) for shape in SHAPES])
    table = Table(title="Peak memory of value and gradient beyond what is returned, MiB")
    table.add_column("B x places x C, m")
    table.add_column("")
    for column in ("2.5 costs + 1 map", *SOLVERS):
        table.add_column(column, justify="right")
    for shape, peaks in zip(SHAPES, found, strict=True):
        batch, places, channels, m = shape
        bound = 4 * batch * places * (2.5 * m + channels)
        for mode in MODES:
            cells = [bound, *(peaks[mode, solver] for solver in SOLVERS)]
            table.add_row(named(shape), mode, *(f"{x / 2**20:.1f}" for x in cells))
    return table


def growth_table():
    table = Table(
        title=f"From {named(SMALL)} on: time at 10 times the size over that at 1, and the exponent"
    )
    table.add_column("")
    table.add_column("what grows")
    for column in ("GSP", "exponent", "convolution", "exponent"):
        table.add_column(column, justify="right")
    for mode, jit_compile in MODES.items():
        for position, name in enumerate(("B", "places", "C", "m")):
            taken = []
            for factor in GROWTH:
                shape = list(SMALL)
                shape[position] *= factor
                taken.append(times(shape, (pooling, convolution), jit_compile))
            cells = []
            for maker in ("pooling", "convolution"):
                each = [of_size[maker] for of_size in taken]
                exponent = np.polyfit(np.log(GROWTH), np.log(each), 1)[0]
                cells += [f"{each[-1] / each[0]:.1f}", f"{exponent:.2f}"]
            table.add_row(mode, name, *cells)
    return table


def main():
    console = Console(width=120)
    for table in (times_table, memory_table, growth_table):
        console.print(table())


if __name__ == "__main__":
    main()
