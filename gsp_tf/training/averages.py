"""Moving averages of weights, which the optimizers of Keras keep."""

import contextlib
from collections.abc import Iterator

import keras
from keras import ops

from gsp_tf._keras import averages_of


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[None]:
    """Give a model the moving averages of its weights while the block evaluates or saves it.

    Keras keeps them with `use_ema=True` of the optimizer:
    `average <- momentum * average + (1 - momentum) * weight` after each step, from the weights
    after the first one (Polyak and Juditsky, "Acceleration of Stochastic Approximation by
    Averaging", 1992). After the block, the model has the weights of the last step to the bit. A
    model whose optimizer keeps no averages, or has taken no step, is left as it is.

    Args:
        model: compiled model.

    Example:
        >>> import keras, numpy as np
        >>> dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        >>> model = keras.Sequential([keras.Input((1,)), dense])
        >>> model.compile(keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.5), "mae")
        >>> _ = model.train_on_batch(np.ones((1, 1)), np.full((1, 1), -9.0))
        >>> _ = model.train_on_batch(np.ones((1, 1)), np.full((1, 1), -9.0))
        >>> with averaged_weights(model):
        ...     dense.kernel.numpy()
        array([[0.25]], dtype=float32)
        >>> dense.kernel.numpy()
        array([[0.]], dtype=float32)
    """
    pairs = averages_of(model.optimizer)
    weights = [ops.convert_to_numpy(weight).copy() for weight, _ in pairs]
    try:
        for weight, average in pairs:
            weight.assign(ops.convert_to_numpy(average))
        yield
    finally:
        for (weight, _), value in zip(pairs, weights, strict=True):
            weight.assign(value)


def restart_averages(model: keras.Model) -> None:
    """Let the moving averages of a model begin again from its current weights."""
    for weight, average in averages_of(model.optimizer):
        average.assign(ops.convert_to_numpy(weight))
