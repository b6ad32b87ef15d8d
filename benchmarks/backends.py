"""Costs of pooling, losses, selection and training steps on every backend of Keras.

`.venv/bin/python benchmarks/backends.py` prints times of value and gradient, and their ratios to
the least work that each needs, measured on the same backend: a 1x1 convolution with average pooling
for GSP; the distance matrix, or the product with the memory or the proxies, for losses; the
products with the pool for k-center; the step with average pooling for a training step. TensorFlow
runs graphs, with and without XLA; JAX runs what it has compiled; PyTorch runs eagerly and, where a
compiler for C++ is installed, by `torch.compile`. Each backend has a process of its own.
"""

import shutil
import time
from functools import partial

import keras
import numpy as np
from keras import ops
from measure import on_backend, rounds
from results import Ratio, Table, main

from gsp_tf import losses
from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.ops import greedy_k_center, pairwise_distances
from gsp_tf.training import MetricLearner

MODES = {
    "TensorFlow, XLA": "tensorflow",
    "TensorFlow": "tensorflow",
    "JAX": "jax",
    "PyTorch": "torch",
    "torch.compile": "torch",
}
AT_MOST = {"JAX": 1.2, "TensorFlow, XLA": 1.1}
WARM_UP = 3
DIM = 128
GSP_SHAPES = (32, 49, 128, 64), (128, 64, 512, 64), (32, 784, 512, 128)
QUICK_SHAPES = ((8, 16, 32, 8),)
FULL = {"batch": 512, "memory": 44_800, "classes": 11_318, "pools": (11_318, 7), "image": (64, 32)}
QUICK = {"batch": 16, "memory": 64, "classes": 20, "pools": (20, 7), "image": (8, 16)}
PAIR_LOSSES = "ContrastiveLoss", "MultiSimilarityLoss", "TripletLoss"
PROXY_LOSSES = "NormalizedSoftmaxLoss", "ProxyAnchorLoss"


def differentiated(function, points, weights=(), states=(), compiler=False):
    """Function without arguments that runs a function of points and its gradients.

    Args:
        function: from tensors to a tensor or a tuple of them; the gradients with respect to them
            are the outputs themselves.
        points: tensors to differentiate for.
        weights: variables to differentiate for.
        states: variables that the function assigns.
        compiler: XLA for TensorFlow, `torch.compile` for PyTorch.
    """
    run = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[keras.backend.backend()]
    return run(function, points, [weight.value for weight in weights], weights, states, compiler)


def _tensorflow(function, points, values, weights, states, compiler):
    import tensorflow as tf

    @tf.function(jit_compile=compiler, autograph=False)
    def run(*points):
        with tf.GradientTape() as tape:
            tape.watch(points)
            outputs = keras.tree.flatten(function(*points))
        return tape.gradient(outputs, [*points, *values], output_gradients=outputs), outputs

    return lambda: np.asarray(run(*points)[1][0])


def _jax(function, points, values, weights, states, compiler):
    import jax

    @partial(jax.jit, donate_argnums=2)
    def run(points, values, kept):
        def outputs_of(points, values):
            given = [*zip(weights, values, strict=True), *zip(states, kept, strict=True)]
            with keras.StatelessScope(given) as scope:
                outputs = keras.tree.flatten(function(*points))
            return outputs, [scope.get_current_value(state) for state in states]

        outputs, pull_back, assigned = jax.vjp(outputs_of, points, values, has_aux=True)
        return pull_back(outputs), outputs, assigned

    kept = [state.value.copy() for state in states]

    def call():
        nonlocal kept
        found, outputs, kept = jax.block_until_ready(run(points, values, kept))

    return call


def _torch(function, points, values, weights, states, compiler):
    import torch

    points = [point.detach().requires_grad_() for point in points]

    def run(*points):
        return keras.tree.flatten(function(*points))

    run = torch.compile(run) if compiler else run

    def call():
        outputs = run(*points)
        torch.autograd.grad(outputs, [*points, *values], outputs, allow_unused=True)

    return call


def array(*shape, seed=0):
    return ops.convert_to_tensor(np.random.default_rng(seed).normal(size=shape).astype("float32"))


def gsp(shape, compiler):
    """GSP and a 1x1 convolution with m filters and average pooling."""
    batch, places, channels, m = shape
    side = max(side for side in range(1, int(places**0.5) + 1) if places % side == 0)
    maps = ops.abs(array(batch, side, places // side, channels))
    filters = [keras.layers.Conv2D(m, 1), keras.layers.GlobalAveragePooling2D()]
    convolution = keras.Sequential([keras.Input((None, None, channels)), *filters])
    pooling = GeneralizedSumPooling(m, return_attributes=True)
    pooling.build((None, None, None, channels))
    return {
        name: differentiated(layer, [maps], layer.trainable_weights, (), compiler)
        for name, layer in (("convolution", convolution), ("GSP", pooling))
    }


def labelled(size, num_classes):
    labels = np.random.default_rng(1).integers(0, num_classes, size)
    return ops.convert_to_tensor(labels), ops.normalize(array(size, DIM))


def of_loss(loss, labels, embeddings, compiler):
    if not getattr(loss, "built", True):
        loss.build(tuple(labels.shape), tuple(embeddings.shape))
    return differentiated(
        lambda embeddings: loss(labels, embeddings),
        [embeddings],
        getattr(loss, "trainable_weights", ()),
        getattr(loss, "non_trainable_variables", ()),
        compiler,
    )


def pair_losses(sizes, compiler):
    """Losses of pairs and the distance matrix."""
    labels, embeddings = labelled(sizes["batch"], 128)
    sides = {"distances": differentiated(pairwise_distances, [embeddings], compiler=compiler)}
    for name in PAIR_LOSSES:
        sides[name] = of_loss(getattr(losses, name)(), labels, embeddings, compiler)
    return sides


def memory(sizes, compiler):
    """A cross-batch memory and the product of batch and memory."""
    labels, embeddings = labelled(64, sizes["classes"])
    stored = ops.normalize(array(sizes["memory"], DIM, seed=2))
    loss = losses.CrossBatchMemory(losses.ContrastiveLoss(), sizes["memory"])
    loss.build((64,), (64, DIM))
    loss.memory.assign(stored)
    loss.memory_labels.assign(np.arange(sizes["memory"]) % sizes["classes"])
    loss.num_enqueued.assign(sizes["memory"])
    product = differentiated(
        lambda x: ops.matmul(x, ops.transpose(stored)), [embeddings], compiler=compiler
    )
    return {
        "product with the memory": product,
        "CrossBatchMemory": of_loss(loss, labels, embeddings, compiler),
    }


def proxies(sizes, compiler):
    """Losses with a proxy for each class and the product of batch and proxies."""
    labels, embeddings = labelled(128, sizes["classes"])
    points = [embeddings, array(sizes["classes"], DIM, seed=2)]
    sides = {
        "product with the proxies": differentiated(
            lambda x, y: ops.matmul(x, ops.transpose(y)), points, compiler=compiler
        )
    }
    for name in PROXY_LOSSES:
        loss = getattr(losses, name)(sizes["classes"])
        sides[name] = of_loss(loss, labels, embeddings, compiler)
    return sides


def selection(sizes, compiler):
    """Greedy k-center and one product of each pool with its centres."""
    pool, centers = array(*sizes["pools"], DIM), array(sizes["pools"][0], 4, DIM, seed=2)

    def products():
        return ops.convert_to_numpy(ops.matmul(pool, ops.swapaxes(centers, -1, -2)))

    return {
        "products with the centres": products,
        "k-center": lambda: ops.convert_to_numpy(greedy_k_center(pool, centers, 4)),
    }


def steps(sizes, compiler):
    """Training steps of a small network with average pooling and with GSP."""
    number, side = sizes["image"]
    images = np.random.default_rng(0).normal(size=(number, side, side, 3)).astype("float32")
    labels = np.arange(number) // 4
    sides = {}
    for name in ("average pooling", "GSP"):
        layers = keras.layers
        pooling = layers.GlobalAveragePooling2D()
        if name == "GSP":
            pooling = GeneralizedSumPooling(64)
        body = [layers.Conv2D(64, 3, padding="same", activation="relu") for _ in range(4)]
        body[1:1] = body[3:3] = [layers.MaxPooling2D()]
        model = keras.Sequential([keras.Input((side, side, 3)), *body, pooling, layers.Dense(DIM)])
        learner = MetricLearner(model, losses.MultiSimilarityLoss())
        learner.compile("adam", jit_compile=compiler or keras.backend.backend() == "jax")
        sides[f"step with {name}"] = partial(learner.train_on_batch, images, labels)
    return sides


def groups(quick):
    """Functions from a compiler to the compared sides, by title."""
    sizes, shapes = (QUICK, QUICK_SHAPES) if quick else (FULL, GSP_SHAPES)
    named = {f"GSP, {b} x {n} x {c}, {m}": partial(gsp, (b, n, c, m)) for b, n, c, m in shapes}
    named[f"pairs, {sizes['batch']} x {DIM}"] = partial(pair_losses, sizes)
    named[f"memory, {sizes['memory']:,} x {DIM}"] = partial(memory, sizes)
    named[f"proxies, {sizes['classes']:,} x {DIM}"] = partial(proxies, sizes)
    named["selection, {:,} x {}".format(*sizes["pools"])] = partial(selection, sizes)
    named["steps, {0} x {1} x {1}".format(*sizes["image"])] = partial(steps, sizes)
    return named


def times(compiler, quick):
    """Median milliseconds of every side of every group; the sides take their turn."""
    found = {}
    for group, make in groups(quick).items():
        keras.utils.set_random_seed(0)
        sides = make(compiler)
        taken = {name: [] for name in sides}
        for number in range(WARM_UP + rounds(quick)):
            for name, side in sides.items():
                started = time.perf_counter()
                side()
                if number >= WARM_UP:
                    taken[name].append(time.perf_counter() - started)
        found[group] = {name: 1e3 * float(np.median(ms)) for name, ms in taken.items()}
    return found


def times_of(mode, quick):
    """The times of one mode, measured in a process of its own."""
    compiler = mode in ("TensorFlow, XLA", "torch.compile")
    program = f"import json, backends; print(json.dumps(backends.times({compiler}, {quick})))"
    return on_backend(MODES[mode], program)


def run(quick=False):
    modes = [mode for mode in MODES if mode != "torch.compile" or shutil.which("g++")]
    found = {mode: times_of(mode, quick) for mode in modes}
    ratios, milliseconds = [], []
    for group, sides in found[modes[0]].items():
        least, *others = sides
        milliseconds += [(group, name, *(found[m][group][name] for m in modes)) for name in sides]
        for name in others:
            row = [group, f"{name} / {least}"]
            for mode in modes:
                taken = found[mode][group]
                at_most = AT_MOST.get(mode) if name == "GSP" else None
                row.append(Ratio(taken[name] / taken[least], at_most))
            ratios.append(row)
    return [
        Table("Ratios on every backend", ["sizes", "what", *modes], ratios),
        Table("Milliseconds on every backend", ["sizes", "what", *modes], milliseconds),
    ]


if __name__ == "__main__":
    main(run)
