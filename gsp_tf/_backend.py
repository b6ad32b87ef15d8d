"""What differs between the backends of Keras."""

from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from gsp_tf._typing import Tensor


def custom_gradient(function: Callable) -> Callable:
    """Decorate `f(*tensors) -> outputs, gradient(*upstreams) -> gradients`, all of them tuples."""
    # keras.ops.custom_gradient passes on the gradients of several outputs in three forms.
    if keras.backend.backend() == "torch":
        return _torch_function(function)
    if keras.backend.backend() == "jax":
        return ops.custom_gradient(_with_gradient_of_one_tuple(function))
    return ops.custom_gradient(function)


def _with_gradient_of_one_tuple(function):
    def wrapped(*tensors):
        outputs, gradient = function(*tensors)
        return outputs, lambda upstreams: gradient(*upstreams)

    return wrapped


def _torch_function(function):
    import torch

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(context, *tensors):
            outputs, context.gradient = function(*tensors)
            # The gradient may hold outputs; other tensors are returned, so that no cycle arises.
            return tuple(output.detach() for output in outputs)

        @staticmethod
        def backward(context, *upstreams):
            return context.gradient(*upstreams)

    return Function.apply


def concrete(tensor: Tensor) -> np.ndarray | None:
    """The value of a tensor, or `None` while a graph is traced."""
    try:
        return ops.convert_to_numpy(tensor)
    except (NotImplementedError, TypeError):
        return None


def compiled(function: Callable) -> Callable:
    """A function that TensorFlow runs as a graph; others run it as it is."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function)
    return function
