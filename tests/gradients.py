"""Runs functions of tensors eagerly or compiled, with the gradients of the backend."""

import keras
import tensorflow as tf


def compiled(function, jit_compile):
    """A function as a graph or, with `jit_compile`, by XLA; eager if that is `None`."""
    if jit_compile is None:
        return function
    return tf.function(function, jit_compile=jit_compile, autograph=False)


def differentiated(function, *arguments, upstream=None, jit_compile=None):
    """Outputs of a function of tensors and their gradients with respect to each, as arrays.

    Args:
        function: from tensors to one output or a tuple of them.
        arguments: arrays or tensors.
        upstream: gradient of the result with respect to each output, else ones.
        jit_compile: as in `compiled`.
    """
    tensors = [keras.ops.convert_to_tensor(argument) for argument in arguments]

    def run(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            outputs = function(*tensors)
        gradients = tape.gradient(
            outputs, tensors, output_gradients=upstream, unconnected_gradients="zero"
        )
        return outputs, gradients

    outputs, gradients = compiled(run, jit_compile)(*tensors)
    return keras.tree.map_structure(keras.ops.convert_to_numpy, (outputs, gradients))
