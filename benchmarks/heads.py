"""What every pooling and every head costs beside average pooling.

`.venv/bin/python benchmarks/heads.py` prints, for heads on the maps that bn_inception makes of 227
pixels (7 x 7 x 1024; with an intermediate map 14 x 14 x 576): weights; value and gradient in
milliseconds, all heads in turn in every round; peak memory of it (Linux); and what a training step
of bn_inception would take with the head in the place of average pooling, from these times and that
of a step with average pooling.
"""

import keras
import numpy as np
import tensorflow as tf
from measure import in_fresh_processes, medians, peak_bytes
from rich.console import Console
from rich.table import Table

from gsp_tf import backbones
from gsp_tf.experiment.heads import build_head
from gsp_tf.experiment.poolings import OF_KERAS, POOLINGS
from gsp_tf.recipe import BackboneRecipe, EmbeddingRecipe, HeadRecipe, PoolingRecipe, Recipe

BATCH = 32
STEP_BATCH = 8
SIDE = 227
MAPS = ((14, 14, 576), (7, 7, 1024))
DIM = 128
ROUNDS = 20
HEADS = {
    "attentive_grouping": {"num_groups": 4, "key_dim": 128},
    "linear_grouping": {"num_groups": 4},
    "gate_grouping": {"num_groups": 4, "hidden_dim": 128},
    "channel_grouping": {"num_groups": 4, "hidden_dim": 128},
    "coded_residual": {"num_prototypes": [49, 64], "second_dim": 1024, "hidden_dim": 128},
    "global_local": {"key_dim": 512},
}
NAMES = ["gap", *(name for name in (*OF_KERAS, *POOLINGS) if name != "gap"), *HEADS]


def recipe_of(name):
    pooling, head = PoolingRecipe("gap"), HeadRecipe()
    if name in HEADS:
        head = HeadRecipe(name, HEADS[name])
    else:
        pooling = PoolingRecipe(name)
    embedding = EmbeddingRecipe(DIM, "after_pooling")
    return Recipe(
        backbone=BackboneRecipe("bn_inception"), pooling=pooling, head=head, embedding=embedding
    )


def head_of(name):
    """Model from the maps of the backbone to embeddings, as training runs it."""
    inputs = [keras.Input(shape) for shape in MAPS]
    features = inputs if name == "global_local" else inputs[-1]
    return keras.Model(inputs, build_head(recipe_of(name), features))


def value_and_gradient(model):
    """Gradients of the squared outputs to weights and inputs."""
    weights = [weight.value for weight in model.trainable_weights]

    def run(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.nest.flatten(model(list(inputs), training=True))
            value = tf.add_n([tf.reduce_sum(tf.square(output)) for output in outputs])
        zero = tf.UnconnectedGradients.ZERO
        return tape.gradient(value, [*inputs[-1:], *weights], unconnected_gradients=zero)

    return run


def maps_of(batch):
    """Features that are not negative, as after a ReLU."""
    rng = np.random.default_rng(0)
    return [tf.constant(rng.exponential(size=(batch, *shape)).astype("float32")) for shape in MAPS]


def memory(name):
    """Peak bytes of value and gradient, beyond those of a single image."""
    run = tf.function(value_and_gradient(head_of(name)), reduce_retracing=True)
    maps = maps_of(BATCH)
    signature = [tf.TensorSpec((None, *shape)) for shape in MAPS]
    run = run.get_concrete_function(*signature)
    run(*(array[:1] for array in maps))[0].numpy()
    return peak_bytes(lambda: run(*maps)[0].numpy())


def step_milliseconds(jit_compile):
    """Value and gradient of bn_inception with average pooling, for a batch of BATCH."""
    shape = (SIDE, SIDE, 3)
    images = keras.Input(shape)
    maps = backbones.create("bn_inception", shape)(images)
    model = keras.Model([images], build_head(recipe_of("gap"), maps))
    function = tf.function(value_and_gradient(model), jit_compile=jit_compile)
    pixels = np.random.default_rng(0).uniform(0, 255, (STEP_BATCH, *shape)).astype("float32")
    times = medians({"step": function}, [tf.constant(pixels)], ROUNDS)
    return times["step"] * BATCH / STEP_BATCH


def main():
    peaks = dict(zip(NAMES, in_fresh_processes(memory, [(name,) for name in NAMES]), strict=True))
    models = {name: head_of(name) for name in NAMES}
    times, steps = {}, {}
    for jit_compile in (False, True):
        functions = {
            name: tf.function(value_and_gradient(model), jit_compile=jit_compile)
            for name, model in models.items()
        }
        times[jit_compile] = medians(functions, maps_of(BATCH), ROUNDS)
        steps[jit_compile] = step_milliseconds(jit_compile)
    title = f"{BATCH} images, {DIM} dimensions\nstep of bn_inception at {SIDE} with gap: "
    title += f"{steps[False]:.0f} ms, {steps[True]:.0f} ms with XLA (batches of {STEP_BATCH})"
    table = Table(title=title)
    for column in ("head", "weights", "MiB", "ms", "step", "ms, XLA", "step, XLA"):
        table.add_column(column, justify="left" if column == "head" else "right")
    for name, model in models.items():
        cells = [name, f"{model.count_params():,}", f"{peaks[name] / 2**20:.0f}"]
        for jit_compile, taken in times.items():
            more = taken[name] - taken["gap"]
            cells += [f"{taken[name]:.1f}", f"{1 + more / steps[jit_compile]:.3f}"]
        table.add_row(*cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
