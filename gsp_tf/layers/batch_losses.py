"""Losses that layers add themselves and that compare the samples of a batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import keras

from gsp_tf._typing import Tensor

_collected = ContextVar("collected", default=None)


def add_batch_loss(
    layer: keras.layers.Layer, function: Callable[..., Tensor], *rows: Tensor
) -> None:
    """Add `function(*rows)` to the losses of a layer, always over the whole batch.

    Use it in `call` instead of `add_loss` for a loss that compares samples. A `MetricLearner` with
    a `chunk_size` calls its layers with parts of a batch; it computes such a loss from the rows of
    all parts.

    Args:
        layer: the layer in whose `call` this is.
        function: function from tensors with one row per sample to a scalar.
        rows: these tensors `(B, ...)`.

    Example:
        >>> import numpy as np
        >>> from keras import ops
        >>> class Centred(keras.layers.Layer):
        ...     def call(self, x):
        ...         add_batch_loss(self, lambda x: ops.sum(ops.square(ops.mean(x, axis=0))), x)
        ...         return x
        >>> layer = Centred()
        >>> _ = layer(np.array([[1.0], [3.0]]))
        >>> float(layer.losses[0])
        4.0
    """
    collected = _collected.get()
    if collected is None:
        layer.add_loss(function(*rows))
    else:
        collected.append((function, rows))


@contextmanager
def collected_batch_losses() -> Iterator[list[tuple[Callable, tuple[Tensor, ...]]]]:
    """Collect pairs of a function and its tensors in the block instead of adding their losses."""
    token = _collected.set([])
    try:
        yield _collected.get()
    finally:
        _collected.reset(token)
