"""What a label may be."""

import math

import numpy as np
import tensorflow as tf
from keras import ops


def check_labels(labels, embeddings, num_classes=None):
    """Refuse labels and embeddings that a loss cannot use.

    Shapes are checked as far as they are known. Values are checked where they can be seen: eagerly,
    and in `fit` with `compile(run_eagerly=True)`, which is the debug mode. Inside a compiled
    function a float label is cut to its whole part, and a label outside the classes gives whatever
    the device gives for an index out of range, often NaN.

    Args:
        labels: tensor `(B,)` or `(B, 1)` of an integer type, or floats without a fraction.
        embeddings: tensor `(B, D)`.
        num_classes: labels must be below it, and 0 or more; any label is accepted if `None`.

    Raises:
        ValueError: if the shapes do not fit together, a label is not whole, or is no class.

    Example:
        >>> import numpy as np
        >>> check_labels(np.array([[0], [2]]), np.zeros((2, 8)), num_classes=3)
    """
    labels, embeddings = ops.convert_to_tensor(labels), ops.convert_to_tensor(embeddings)
    _check_shapes(_static_shape(labels), _static_shape(embeddings))
    if labels.dtype == "bool":
        raise ValueError("Labels must be of an integer type, received bool.")
    if isinstance(labels, tf.Tensor) and tf.executing_eagerly():
        _check_values(labels.numpy(), num_classes)


def _static_shape(tensor):
    return None if getattr(tensor.shape, "rank", 0) is None else tuple(tensor.shape)


def _check_shapes(labels, embeddings):
    if embeddings is None:
        return
    known = labels is not None and None not in (*labels, embeddings[0])
    if len(embeddings) != 2 or (known and math.prod(labels) != embeddings[0]):
        raise ValueError(
            "A loss takes integer labels (B,) or (B, 1) and embeddings (B, D), received labels of "
            f"shape {labels} and embeddings of shape {embeddings}."
        )


def _check_values(labels, num_classes):
    if not np.issubdtype(labels.dtype, np.integer):
        labels = labels.astype("float64")
        broken = labels[~(np.isfinite(labels) & (labels == np.floor(labels)))]
        if broken.size:
            raise ValueError(f"Labels must be whole numbers, received {broken[0]:g}.")
    if num_classes is None:
        return
    outside = labels[(labels < 0) | (labels >= num_classes)]
    if outside.size:
        raise ValueError(
            f"Labels must lie in 0 to {num_classes - 1} (num_classes={num_classes}), "
            f"received {outside[0]}."
        )
