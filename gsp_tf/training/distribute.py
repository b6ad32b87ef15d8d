"""Training on one device or several; only TensorFlow's strategies need help.

On JAX, `keras.distribution.DataParallel` splits batches over devices. A step then computes on
global arrays, so losses see all rows and gradients are clipped once, as on one device.
"""

import contextlib

import keras
import numpy as np

from gsp_tf._typing import Tensor

if keras.backend.backend() == "tensorflow":
    from gsp_tf.training._tf_distribute import (
        DistributedModel,
        all_gather,
        broadcast_from_chief,
        divide_by_replicas,
    )
else:

    class DistributedModel:
        """Mixin for a Keras model, without a change: a step sees the whole batch."""

    def all_gather(tensor: Tensor) -> Tensor:
        """The rows of all devices, which a step already sees."""
        return tensor

    def divide_by_replicas(loss: Tensor) -> Tensor:
        """The loss itself: a step is taken once for all devices."""
        return loss

    def broadcast_from_chief(strategy: None, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array


__all__ = [
    "DistributedModel",
    "all_gather",
    "broadcast_from_chief",
    "divide_by_replicas",
    "is_chief",
    "scope_of",
    "strategy_of",
]


def strategy_of(model: keras.Model) -> object | None:
    """The `tf.distribute` strategy of a model; `None` on other backends."""
    return getattr(model, "distribute_strategy", None)


def scope_of(model: keras.Model) -> contextlib.AbstractContextManager:
    """The scope in which variables of a model's strategy are made."""
    strategy = strategy_of(model)
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def is_chief(model: keras.Model) -> bool:
    """Whether this process writes the files: it is the only one, or the first worker.

    Args:
        model: the model that trains.

    Example:
        >>> is_chief(keras.Sequential())
        True
    """
    strategy = strategy_of(model)
    return strategy is None or strategy.extended.should_checkpoint
