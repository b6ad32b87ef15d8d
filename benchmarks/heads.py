"""Costs of every pooling and every head relative to average pooling.

`.venv/bin/python benchmarks/heads.py` measures heads on the maps of bn_inception for 227 pixels
(7 x 7 x 1024; for global_local also the map of module 4d, 14 x 14 x 608). It prints the number of
weights, and the milliseconds and peak memory of value and gradient; every round times all heads in
turn. From these times and that of a bn_inception training step with average pooling, it computes
the time of a step with each head.
"""

from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from measure import in_fresh_processes, medians, peak_bytes, rounds
from results import Table, main

from gsp_tf import backbones
from gsp_tf._names import NAMES
from gsp_tf.recipe import BackboneRecipe, ClassRecipe, EmbeddingRecipe, Recipe, resolved
from gsp_tf.runs import build_head

DIM = 128
HEADS = {
    "attentive_grouping": {"num_groups": 4, "key_dim": 128},
    "linear_grouping": {"num_groups": 4},
    "gate_grouping": {"num_groups": 4, "hidden_dim": 128},
    "channel_grouping": {"num_groups": 4, "hidden_dim": 128},
    "coded_residual": {"num_prototypes": [64, 64], "hidden_dim": 128},
    "global_local": {"key_dim": 512},
}
MEASURED = ("gap", *(name for name in NAMES["pooling"] if name != "gap"), *HEADS)


@dataclass(frozen=True)
class Sizes:
    """Images for the heads and for the step, maps of the backbone, and heads to measure."""

    batch: int
    step_batch: int
    backbone: str
    side: int
    maps: tuple
    names: tuple


FULL = Sizes(32, 8, "bn_inception", 227, ((14, 14, 608), (7, 7, 1024)), MEASURED)
QUICK = Sizes(2, 2, "conv4", 32, ((4, 4, 6), (2, 2, 8)), ("gap", "gsp", "attentive_grouping"))


def recipe_of(name, backbone):
    pooling, head = ClassRecipe("gap"), None
    if name in HEADS:
        head = ClassRecipe(name, HEADS[name])
    else:
        pooling = ClassRecipe(name)
    embedding = EmbeddingRecipe(DIM, "after_pooling")
    wrapper = ClassRecipe("grouped") if name.endswith("_grouping") else None
    recipe = Recipe(
        backbone=BackboneRecipe(backbone),
        pooling=pooling,
        head=head,
        embedding=embedding,
        loss_wrapper=wrapper,
    )
    return resolved(recipe)


def head_of(name, sizes):
    """Model from the backbone's maps to embeddings, as in training."""
    inputs = [keras.Input(shape) for shape in sizes.maps]
    features = inputs if name == "global_local" else inputs[-1]
    return keras.Model(inputs, build_head(recipe_of(name, sizes.backbone), features))


def value_and_gradient(model):
    """Gradients of the squared outputs with respect to weights and inputs."""
    weights = [weight.value for weight in model.trainable_weights]

    def run(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.nest.flatten(model(list(inputs), training=True))
            value = tf.add_n([tf.reduce_sum(tf.square(output)) for output in outputs])
        zero = tf.UnconnectedGradients.ZERO
        return tape.gradient(value, [*inputs[-1:], *weights], unconnected_gradients=zero)

    return run


def maps_of(sizes):
    """Non-negative features, as after a ReLU."""
    rng = np.random.default_rng(0)
    return [
        tf.constant(rng.exponential(size=(sizes.batch, *shape)).astype("float32"))
        for shape in sizes.maps
    ]


def memory(name, sizes):
    """Peak bytes of value and gradient beyond those of a single image."""
    run = tf.function(value_and_gradient(head_of(name, sizes)), reduce_retracing=True)
    maps = maps_of(sizes)
    signature = [tf.TensorSpec((None, *shape)) for shape in sizes.maps]
    run = run.get_concrete_function(*signature)
    run(*(array[:1] for array in maps))[0].numpy()
    return peak_bytes(lambda: run(*maps)[0].numpy())


def step_milliseconds(sizes, jit_compile, num_rounds):
    """Time of value and gradient of the backbone with average pooling, for the heads' batch."""
    shape = (sizes.side, sizes.side, 3)
    images = keras.Input(shape)
    maps = backbones.create(sizes.backbone, shape)(images)
    model = keras.Model([images], build_head(recipe_of("gap", sizes.backbone), maps))
    function = tf.function(value_and_gradient(model), jit_compile=jit_compile)
    pixels = np.random.default_rng(0).uniform(0, 255, (sizes.step_batch, *shape))
    times = medians({"step": function}, [tf.constant(pixels, "float32")], num_rounds)
    return times["step"] * sizes.batch / sizes.step_batch


def run(quick=False):
    sizes, num_rounds = QUICK if quick else FULL, rounds(quick)
    peaks = in_fresh_processes(memory, [(name, sizes) for name in sizes.names])
    models = {name: head_of(name, sizes) for name in sizes.names}
    times, steps = [], []
    for jit_compile in (False, True):
        functions = {
            name: tf.function(value_and_gradient(model), jit_compile=jit_compile)
            for name, model in models.items()
        }
        times.append(medians(functions, maps_of(sizes), num_rounds))
        steps.append(step_milliseconds(sizes, jit_compile, num_rounds))
    rows = []
    for (name, model), peak in zip(models.items(), peaks, strict=True):
        row = [name, model.count_params(), peak / 2**20]
        for taken, step in zip(times, steps, strict=True):
            row += [taken[name], f"{1 + (taken[name] - taken['gap']) / step:.3f}"]
        rows.append(row)
    return [
        Table(
            f"Heads on {sizes.batch} images, {DIM} dimensions",
            ["head", "weights", "MiB", "ms", "step", "ms, XLA", "step, XLA"],
            rows,
            f"Step: how many times that of {sizes.backbone} at {sizes.side} pixels with gap, which "
            f"takes {steps[0]:.0f} ms, {steps[1]:.0f} ms with XLA (from batches of "
            f"{sizes.step_batch}).",
        )
    ]


if __name__ == "__main__":
    main(run)
