"""Embeddings of a large batch in the memory of a small one.

The embedder runs on chunks of the batch, one after the other, and keeps no activations. The
gradient of the outputs runs each chunk a second time, from the same state and with the same random
numbers, and adds up the gradients of the weights. "Scaling Deep Contrastive Learning Batch Size
under Memory Limited Setup" (Gao et al. 2021), section 3.2. The images get no gradient.

All n chunks have `ceil(B / n)` rows, so that one compiled program serves all. The last one repeats
up to n - 1 rows of the one before, whose second outputs are not used.
"""

from collections.abc import Callable

import keras
from keras import ops, tree

from gsp_tf._keras import copies, layers_within, state_of
from gsp_tf._typing import Tensor
from gsp_tf.layers import collected_batch_losses
from gsp_tf.training.distribute import strategy_of


def rematerialized_scan(
    function: Callable, weights: list[Tensor], state: list[Tensor], steps: Tensor
) -> tuple[list[Tensor], list]:
    """The last state and stacked outputs of `function(weights, state, step) -> state, outputs`."""
    # The gradient of the weights runs each step again; no step keeps its intermediate values.
    if keras.backend.backend() == "tensorflow":
        return _scan_of_tensorflow(function, weights, state, steps)
    if keras.backend.backend() == "jax":
        return _scan_of_jax(function, weights, state, steps)
    return ops.scan(keras.remat(lambda *step: function(weights, *step)), state, steps)


def _scan_of_jax(function, weights, state, steps):
    """`rematerialized_scan` on JAX."""
    # jax.checkpoint would lose what a custom gradient within the function has captured.
    import jax

    def run(weights):
        def body(state, step):
            after, outputs = function(weights, state, step)
            return after, (outputs, state)

        last, (outputs, kept) = jax.lax.scan(body, state, steps)
        return (last, outputs), (weights, kept)

    def gradient(residuals, upstreams):
        weights, kept = residuals

        def body(totals, values):
            step, state, upstream = values
            _, pull_back = jax.vjp(lambda weights: function(weights, state, step)[1], weights)
            return [x + y for x, y in zip(totals, *pull_back(upstream), strict=True)], None

        zeros = [ops.zeros_like(weight) for weight in weights]
        return (jax.lax.scan(body, zeros, (steps, kept, upstreams[1]))[0],)

    scan = jax.custom_vjp(lambda weights: run(weights)[0])
    scan.defvjp(run, gradient)
    return scan(weights)


def _scan_of_tensorflow(function, weights, state, steps):
    """`rematerialized_scan` on TensorFlow."""
    # The gradient of a loop of TensorFlow keeps every step's intermediate values, and a loop that
    # may run ten steps at once, its default, needs the memory of ten.
    import tensorflow as tf

    count, found = tf.shape(steps)[0], {}

    def array_of(first):
        array = tf.TensorArray(
            first.dtype, count, element_shape=first.shape, clear_after_read=False
        )
        return array.write(0, first)

    def loop_over_steps(body, values):
        return tf.while_loop(lambda step, *_: step < count, body, values, parallel_iterations=1)

    @tf.custom_gradient
    def outputs_of(*weights):
        def run(step, state):
            state, outputs = function(weights, state, steps[step])
            return state, keras.tree.flatten(outputs), outputs

        def body(step, state, kept, arrays):
            kept = [array.write(step, x) for array, x in zip(kept, state, strict=True)]
            state, outputs, _ = run(step, state)
            arrays = [array.write(step, x) for array, x in zip(arrays, outputs, strict=True)]
            return step + 1, state, kept, arrays

        second, flat, found["structure"] = run(0, state)  # tells how many outputs there are
        kept, arrays = ([array_of(x) for x in tensors] for tensors in (state, flat))
        loop = (tf.constant(1), second, kept, arrays)
        _, found["state"], kept, arrays = loop_over_steps(body, loop)

        def gradient(*upstreams):
            def body(step, totals):
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    local = [tf.identity(weight) for weight in weights]
                    tape.watch(local)
                    _, outputs = function(local, [array.read(step) for array in kept], steps[step])
                gradients = tape.gradient(
                    keras.tree.flatten(outputs),
                    local,
                    [upstream[step] for upstream in upstreams],
                    unconnected_gradients="zero",
                )
                return step + 1, [x + y for x, y in zip(totals, gradients, strict=True)]

            zeros = [tf.zeros_like(weight) for weight in weights]
            loop = (tf.constant(0), zeros)
            return loop_over_steps(body, loop)[1]

        return [array.stack() for array in arrays], gradient

    outputs = outputs_of(*weights)
    return found["state"], keras.tree.pack_sequence_as(found["structure"], outputs)


def embed_in_chunks(
    embedder: keras.Model, images: Tensor, chunk_size: int
) -> tuple[Tensor | list | dict, list[Tensor]]:
    """Outputs of an embedder in training, and the losses that its layers add."""
    # A loss from `add_batch_loss` is that of the batch, any other the mean over the chunks.
    weights = embedder.trainable_variables
    state = state_of(embedder)
    ids = {id(variable) for variable in (*weights, *state)}
    constants = [variable for variable in embedder.variables if id(variable) not in ids]
    images = tree.map_structure(ops.convert_to_tensor, images)
    batch_size = ops.shape(tree.flatten(images)[0])[0]
    count = -(-batch_size // chunk_size)
    size = -(-batch_size // count)
    fixed = list(zip(constants, copies(constants), strict=True))
    found = {}

    def embed_chunk(values, state_values, start):
        rows = start + ops.arange(size, dtype="int32")
        chunk = tree.map_structure(lambda x: ops.take(x, rows, axis=0), images)
        mapping = [*zip(weights, values, strict=True), *zip(state, state_values, strict=True)]
        scope = keras.StatelessScope([*mapping, *fixed], collect_losses=True)
        with scope, collected_batch_losses() as collected:
            outputs = embedder(chunk, training=True)
        found.update(outputs=outputs, collected=collected)
        rows = [*tree.flatten(outputs), *tree.flatten([rows for _, rows in collected])]
        return [scope.get_current_value(variable) for variable in state], [rows, scope.losses]

    starts = ops.minimum(ops.arange(count, dtype="int32") * size, batch_size - size)
    scanned = rematerialized_scan(embed_chunk, copies(weights), copies(state), starts)
    after, (rows, losses) = scanned
    for variable, value in zip(state, after, strict=True):
        variable.assign(ops.stop_gradient(value))
    index = ops.arange(batch_size, dtype="int32")
    repeated = ops.where(index >= (count - 1) * size, count * size - batch_size, 0)
    index = index + ops.cast(repeated, "int32")
    rows = [ops.take(ops.reshape(x, (-1, *x.shape[2:])), index, axis=0) for x in rows]
    outputs = tree.pack_sequence_as(found["outputs"], rows[: len(tree.flatten(found["outputs"]))])
    losses = [ops.mean(loss) for loss in losses]
    rest = iter(rows[len(tree.flatten(found["outputs"])) :])
    for function, tensors in found["collected"]:
        losses.append(function(*[next(rest) for _ in tensors]))
    return outputs, losses


def check_chunks(embedder: keras.Model) -> list[str]:
    """Names of the layers that normalise by the statistics of a chunk instead of the batch.

    Refuses an embedder whose chunks would give another loss than the whole batch.
    """
    if keras.distribution.distribution() is not None:
        raise ValueError(
            "chunk_size is for one device, or for the replicas of tf.distribute; received a model "
            "under keras.distribution.set_distribution. Leave out chunk_size."
        )
    several = getattr(strategy_of(embedder), "num_replicas_in_sync", 1) > 1
    names = []
    for layer in layers_within(embedder):
        if layer.activity_regularizer is not None:
            raise ValueError(
                f"chunk_size takes no activity regulariser, but layer {layer.name} has one. Add "
                "the loss in a layer with gsp_tf.layers.add_batch_loss."
            )
        if several and getattr(layer, "synchronized", False) and layer.trainable:
            raise ValueError(
                "chunk_size on several replicas takes no synchronized batch normalisation; layer "
                f"{layer.name} is one. Freeze it or make it with synchronized=False."
            )
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
            names.append(layer.name)
    return names
