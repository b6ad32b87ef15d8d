"""A loop whose gradient runs each step again, on every backend."""

from collections.abc import Callable

import keras
from keras import ops

from gsp_tf._typing import Tensor


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
