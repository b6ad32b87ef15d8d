"""Costs of generalized sum pooling, in time, memory and growth.

`.venv/bin/python benchmarks/gsp.py` prints tables for outputs and gradients: times relative to a
1x1 convolution with m filters and average pooling, and to the paper's formulation (100 iterations
of Prop. 4.2 under automatic differentiation); times of the TensorFlow kernels that GSP needs, by
group; peak memory relative to its bound (Linux); and the factor of the time when B, the places, C
or m grow by a factor of 10.
"""

import ctypes
import os
import sys
from functools import partial
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from measure import in_fresh_processes, medians, peak_bytes, rounds
from results import Ratio, Table, main

from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.ops import lipschitz_normalize, pairwise_distances

sys.path.append(str(Path(__file__).parents[1] / "experiments/studies"))

from backward_cost import automatic  # noqa: E402

# (B, places, C, m), and whether the paper's formulation is timed too.
SHAPES = {(32, 49, 128, 64): True, (128, 64, 512, 64): True, (32, 784, 512, 128): False}
QUICK_SHAPES = {(8, 16, 32, 8): True}
# The shape that grows, one size at a time, and the factor.
GROWN = (32, 196, 256, 64)
QUICK_GROWN = (2, 4, 8, 4)
GROWTH = 10
# Whether XLA compiles, and the target for the time of GSP as a multiple of the convolution's.
MODES = {"XLA": True, "no XLA": False}
AT_MOST = {"XLA": 1.2, "no XLA": 1.4}
PAPER_AT_LEAST = 3
ITERATIONS = 100
SOLVERS = ("newton", "fixed_point")
M_MMAP_THRESHOLD = -3
PAGE = 4096


def convolution(channels, m):
    """Function to the pooled values of m filters, and the filters' weights."""
    layers = [keras.layers.Conv2D(m, 1), keras.layers.GlobalAveragePooling2D()]
    model = keras.Sequential([keras.Input((None, None, channels)), *layers])
    return model, model.trainable_weights


def pooling(channels, m, solver="newton"):
    """Function to the pooled features and attributes of the layer, and its prototypes."""
    layer = GeneralizedSumPooling(m, solver=solver, return_attributes=True)
    layer.build((None, None, None, channels))
    return layer, layer.trainable_weights


def paper(channels, m):
    """The same by the paper's iteration, with a gradient for each step."""
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
    """Function to the outputs and, from given output gradients, those of maps and weights."""
    weights = [weight.value for weight in weights]

    def run(maps, *upstream):
        with tf.GradientTape() as tape:
            tape.watch(maps)
            outputs = pool(maps)
        upstream = list(upstream) if isinstance(outputs, tuple) else upstream[1]
        return tape.gradient(outputs, [maps, *weights], output_gradients=upstream), outputs

    return tf.function(run, jit_compile=jit_compile, autograph=False)


def arguments_of(shape):
    """Non-negative maps, as after a ReLU, and gradients of both outputs."""
    batch, places, channels, m = shape
    side = max(side for side in range(1, int(places**0.5) + 1) if places % side == 0)
    rng = np.random.default_rng(0)
    maps = rng.exponential(size=(batch, side, places // side, channels))
    upstream = [rng.normal(size=(batch, size)) for size in (channels, m)]
    return [tf.constant(array, "float32") for array in (maps, *upstream)]


def times(sides, jit_compile, num_rounds):
    """Median milliseconds of pairs of a maker and a shape, timed in turn."""
    functions = {
        (make, shape): partial(
            value_and_gradient(*make(*shape[2:]), jit_compile), *arguments_of(shape)
        )
        for make, shape in sides
    }
    return medians(functions, (), num_rounds)


def memory(shape):
    """Peak bytes of a call beyond its results, by mode and solver."""
    # Returns every larger buffer when it is freed, so that the first call leaves none.
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**14)
    arguments = arguments_of(shape)
    peaks = {}
    for mode, jit_compile in MODES.items():
        for solver in SOLVERS:
            run = value_and_gradient(*pooling(*shape[2:], solver), jit_compile)
            returned = sum(4 * tf.size(array).numpy() for array in tf.nest.flatten(run(*arguments)))
            peak = peak_bytes(lambda run=run: run(*arguments)[0][0].numpy())
            peaks[mode, solver] = max(PAGE, peak - returned)
    return peaks


def named(shape):
    return "{} x {} x {}, {}".format(*shape)


def times_table(shapes, num_rounds):
    rows = []
    for mode, jit_compile in MODES.items():
        for shape, with_paper in shapes.items():
            makers = (convolution, pooling, paper) if with_paper else (convolution, pooling)
            taken = times([(make, shape) for make in makers], jit_compile, num_rounds)
            of_convolution, of_pooling, *of_paper = taken.values()
            row = [named(shape), mode, of_convolution, of_pooling]
            row += [Ratio(of_pooling / of_convolution, AT_MOST[mode])]
            row += of_paper or [""]
            row += [Ratio(ms / of_pooling, at_least=PAPER_AT_LEAST) for ms in of_paper] or [""]
            row += [Ratio(ms / PAPER_AT_LEAST / of_convolution) for ms in of_paper] or [""]
            rows.append(row)
    columns = ["B x places x C, m", "", "convolution, ms", "GSP, ms", "times convolution"]
    columns += ["paper, ms", "paper over GSP"]
    columns += ["a third of the paper over convolution"]
    return Table("Value and gradient of GSP and of a convolution with pooling", columns, rows)


def needs(shape):
    """Functions with the TensorFlow kernels that value and gradient of GSP need, by group.

    The groups are the matrix products; the sums over the maps (norms, pooled features, gradient of
    the weights); the parts of the maps' gradient other than the product (multiples of the features
    and of the upstream gradient, and their sum with the product); and the operations on the costs
    (distance, softmax, gradient of both). The solution of the transport is left out.
    """
    batch, places, channels, m = shape
    maps, g_pooled, _ = arguments_of(shape)
    rng = np.random.default_rng(0)
    features = tf.reshape(maps, (batch, places, channels))
    prototypes = tf.constant(rng.normal(size=(m, channels)), "float32")
    costs = tf.constant(rng.uniform(size=(batch, places, m)), "float32")
    weights = tf.constant(rng.uniform(size=(batch, places)), "float32")

    def products():
        rows, of_rows = tf.reshape(features, (-1, channels)), tf.reshape(costs, (-1, m))
        forward = tf.matmul(rows, prototypes, transpose_b=True)
        return tf.matmul(of_rows, prototypes), forward, tf.matmul(of_rows, rows, transpose_a=True)

    def sums():
        norms = tf.tensordot(tf.square(features), tf.ones(channels), 1)
        pooled = tf.linalg.matvec(features, weights, transpose_a=True)
        return norms, pooled, tf.linalg.matvec(features, g_pooled)

    def multiples(product):
        gradient = weights[..., None] * features + weights[..., None] * g_pooled[:, None]
        return gradient + tf.reshape(product, features.shape)

    def of_costs():
        distance = tf.sqrt(weights[..., None] * costs + weights[..., None])
        assignment = tf.nn.softmax(-distance)
        gradient = assignment * (weights[..., None] * costs) / distance
        return gradient, tf.reduce_sum(gradient, axis=-1)

    def both():
        product, *others = products()
        return multiples(product), *others

    return {
        "products": products,
        "products and maps' gradient": both,
        "sums over the maps": sums,
        "costs": of_costs,
    }


def needs_table(shapes, num_rounds):
    rows = []
    for shape in shapes:
        functions = {
            name: tf.function(function, autograph=False) for name, function in needs(shape).items()
        }
        run = value_and_gradient(*convolution(*shape[2:]), False)
        functions["convolution"] = partial(run, *arguments_of(shape))
        taken = medians(functions, (), num_rounds)
        of_convolution = taken.pop("convolution")
        products = taken["products"]
        taken["products and maps' gradient"] -= products
        total = sum(taken.values())
        rows.append((named(shape), of_convolution, *taken.values(), Ratio(total / of_convolution)))
    columns = ["B x places x C, m", "convolution, ms", "its products", "rest of the maps' gradient"]
    columns += ["sums over the maps", "costs", "sum over convolution"]
    note = (
        "Without XLA no kernel of TensorFlow joins these: each group reads and writes the maps or "
        "the costs again. The solver is not among them."
    )
    return Table("What GSP needs of TensorFlow's kernels without XLA, ms", columns, rows, note)


def memory_table(shapes):
    # oneDNN's allocator keeps freed memory; without it, the system sees every buffer.
    with mock.patch.dict(os.environ, TF_ENABLE_ONEDNN_OPTS="0"):
        found = in_fresh_processes(memory, [(shape,) for shape in shapes])
    rows = []
    for shape, peaks in zip(shapes, found, strict=True):
        batch, places, channels, m = shape
        bound = 4 * batch * places * (2.5 * m + channels)
        for mode in MODES:
            row = [named(shape), mode, bound / 2**20]
            for solver in SOLVERS:
                peak = peaks[mode, solver]
                row += [peak / 2**20, Ratio(peak / bound, 1)]
            rows.append(row)
    columns = ["B x places x C, m", "", "2.5 costs + 1 map"]
    for solver in SOLVERS:
        columns += [solver, "of it"]
    return Table("Peak memory of GSP beyond what it returns, MiB", columns, rows)


def growth_table(shape, num_rounds):
    grown = {}
    for position, name in enumerate(("B", "places", "C", "m")):
        grown[name] = tuple(
            size * GROWTH if place == position else size for place, size in enumerate(shape)
        )
    makers = (pooling, convolution)
    sides = [(make, size) for size in (shape, *grown.values()) for make in makers]
    rows = []
    for mode, jit_compile in MODES.items():
        taken = times(sides, jit_compile, num_rounds)
        for name, size in grown.items():
            ratios = [Ratio(taken[make, size] / taken[make, shape]) for make in makers]
            rows.append((name, mode, *ratios))
    title = f"Time at {GROWTH} times one size over that at {named(shape)}"
    return Table(title, ["what grows", "", "GSP", "convolution"], rows)


def run(quick=False):
    shapes, grown = (QUICK_SHAPES, QUICK_GROWN) if quick else (SHAPES, GROWN)
    return [
        times_table(shapes, rounds(quick)),
        needs_table(shapes, rounds(quick)),
        memory_table(shapes),
        growth_table(grown, rounds(quick)),
    ]


if __name__ == "__main__":
    main(run)
