"""Values and gradients of the backend, and the differences that they are compared with."""

import keras
import numpy as np
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


def value_and_gradient(loss, labels, embeddings):
    """Value of a loss, and its gradient of the embeddings, as tensors."""
    return recorded(loss, labels, embeddings)[:2]


def value_and_gradients(loss, labels, embeddings, jit_compile=False, **arguments):
    """Numbers: value of a loss, its gradient of the embeddings, and those of its own weights."""

    def run(embeddings):
        return recorded(loss, labels, embeddings, **arguments)

    run = tf.function(run, jit_compile=True) if jit_compile else run
    value, *gradients = run(tf.convert_to_tensor(embeddings))
    return float(value), *(tf.cast(g, "float64").numpy() for g in gradients)


def recorded(loss, labels, embeddings, **arguments):
    """Value of a loss, and its gradients of the embeddings and of its own weights, as tensors."""
    embeddings = tf.convert_to_tensor(embeddings)
    with tf.GradientTape() as tape:
        tape.watch(embeddings)
        value = loss(labels, embeddings, **arguments)
    weights = [w.value for w in getattr(loss, "trainable_weights", ())]
    return value, *tape.gradient(value, [embeddings, *weights])


def finite_differences(function, *points, step=1e-6):
    """Gradients of a function of arrays, from two of its values for each entry."""
    gradients = [np.empty_like(point) for point in points]
    for which, gradient in enumerate(gradients):
        for index in np.ndindex(*gradient.shape):
            values = []
            for sign in (1, -1):
                moved = [point.copy() for point in points]
                moved[which][index] += sign * step
                values.append(float(function(*moved)))
            gradient[index] = (values[0] - values[1]) / (2 * step)
    return gradients


def assert_equals_differences(gradients, function, *points, rtol=1e-5, atol=1e-7):
    """Hold gradients of each array against finite differences of a function of the arrays."""
    expected = finite_differences(function, *points)
    for gradient, numeric in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, numeric, rtol=rtol, atol=atol)
