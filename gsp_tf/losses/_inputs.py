"""Checks of the labels and embeddings that a loss is called with."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._backend import available, checked
from gsp_tf._numerics import at_least_float32, exact_labels
from gsp_tf._typing import Relation, Tensor

_WHOLE_BELOW = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}


def check_inputs(
    labels: Tensor,
    embeddings: Tensor,
    num_classes: int | None = None,
    normalize: bool = True,
    dtype: str | None = None,
    relation: Relation = "equal",
) -> tuple[Tensor, Tensor, Tensor]:
    """Labels `(B,)`, embeddings `(B, D)`, and whether they are valid; otherwise the loss is NaN."""
    # For another relation than "equal", labels are vectors (B, C).
    # Types and shapes are checked as far as they are known. Eager calls and a tf.function raise an
    # error for faults that show only when the loss is computed. XLA cannot raise errors, so there
    # the third value is False. It is also False for embeddings that are not finite.
    embeddings = as_float_tensor(embeddings)
    embeddings = ops.cast(embeddings, dtype or embeddings.dtype)
    if relation == "equal":
        labels, rules = _classes(labels, embeddings, num_classes)
    else:
        labels, rules = _label_vectors(labels, embeddings, relation)
    rules = [*_rules_of_shapes(labels, embeddings), *rules]
    if not normalize:
        rules.append(_rule_of_norms(embeddings))
    labels = checked(labels, rules)
    if relation == "equal":
        labels = ops.cast(labels, available("int64"))
        if num_classes is not None:
            labels = ops.cast(ops.clip(labels, 0, num_classes - 1), "int32")
    is_finite = ops.all(ops.isfinite(embeddings))
    return labels, embeddings, ops.all(ops.stack([is_finite, *(is_met for is_met, *_ in rules)]))


def nan_unless(is_valid: Tensor, loss: Tensor) -> Tensor:
    """The loss if valid, else NaN: a maximum or a miner may hide embeddings that are not finite."""
    # On PyTorch, a bare number has the type of floatx, and two scalars the wider of their types.
    return ops.where(is_valid, loss, ops.cast(float("nan"), loss.dtype))


def largest_norm(dtype: str) -> float:
    """Largest norm of embeddings for which losses without normalisation are finite."""
    # Up to this norm, fourth powers of the embeddings times the scale of a loss do not overflow.
    return float(np.finfo(dtype).max) ** 0.25 / 10.0


def as_float_tensor(embeddings: Tensor) -> Tensor:
    """Embeddings as a tensor of at least float32; ValueError if they are not numbers."""
    return at_least_float32(_numeric_tensor(embeddings, "Embeddings must be of a floating type"))


def _classes(labels, embeddings, num_classes):
    """Labels `(B,)` and the rules for their values."""
    labels = label_tensor(labels)
    _check_shapes(_static_shape(labels), _static_shape(embeddings))
    labels = ops.reshape(labels, (-1,))
    return labels, _rules_of_labels(labels, num_classes)


def _label_vectors(labels, embeddings, relation):
    """Labels for a relation, and the rules for their values."""
    labels = label_tensor(labels, "Labels must be numbers", booleans=True)
    shape, of_embeddings = _static_shape(labels), _static_shape(embeddings)
    named = isinstance(relation, str)
    fits = shape is not None and (len(shape) == 2 or (len(shape) == 1 and not named))
    if fits and of_embeddings is not None:
        fits = len(of_embeddings) == 2 and (
            None in (shape[0], of_embeddings[0]) or shape[0] == of_embeddings[0]
        )
    if not fits or 0 in shape:
        kind = f"relation={relation!r} takes label vectors (B, C)"
        if not named:
            kind = "a function as relation takes labels (B,) or (B, C)"
        raise ValueError(
            f"A loss with {kind} and embeddings (B, D), received labels of shape {shape} and "
            f"embeddings of shape {of_embeddings}."
        )
    if not named:
        return labels, [_rule(ops.isfinite(labels), labels, "Labels must be finite")]
    labels = ops.cast(labels, embeddings.dtype)
    is_met = ops.logical_and(labels >= 0, labels <= 1)
    message = f"Label vectors for relation={relation!r} must lie in 0 to 1"
    return labels, [_rule(is_met, labels, message)]


def label_tensor(
    labels: Any, message: str = "Labels must be of an integer type", booleans: bool = False
) -> Tensor:
    """Labels as a tensor of numbers that merges none; ValueError for anything else."""
    return _numeric_tensor(exact_labels(labels), message, booleans)


def _numeric_tensor(values, message, booleans=False):
    try:
        tensor = ops.convert_to_tensor(values)
    except (TypeError, ValueError):
        received = "None" if values is None else type(values).__name__
        raise ValueError(f"{message}, received {received}.") from None
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if booleans and dtype == "bool":
        return ops.cast(tensor, "float32")
    if not (keras.backend.is_int_dtype(dtype) or keras.backend.is_float_dtype(dtype)):
        raise ValueError(f"{message}, received {dtype}.")
    return tensor


def _static_shape(tensor):
    return None if getattr(tensor.shape, "rank", 0) is None else tuple(tensor.shape)


def _check_shapes(labels, embeddings):
    received = f"received labels of shape {labels} and embeddings of shape {embeddings}."
    is_column = labels is None or len(labels) == 1 or (len(labels) == 2 and labels[1] in (1, None))
    same_size = True
    if None not in (labels, embeddings) and None not in (*labels, *embeddings[:1]):
        same_size = math.prod(labels) == embeddings[0]
    if not is_column or not same_size or (embeddings is not None and len(embeddings) != 2):
        hint = ""
        if not is_column and len(labels) == 2:
            hint = (
                " The class of a one-hot label is its argmax over the last axis. A pair loss takes "
                "label vectors with relation='any', 'jaccard' or 'cosine'."
            )
        raise ValueError(
            "A loss takes integer labels (B,) or (B, 1) and embeddings (B, D), " + received + hint
        )
    if labels is not None and labels[0] == 0 or embeddings is not None and embeddings[0] == 0:
        raise ValueError("A loss needs at least one sample, " + received)


# A rule is a tuple of a boolean scalar (whether it is met), the error message, and a value to show.


def _rules_of_shapes(labels, embeddings):
    """Rules for the sizes that `_check_shapes` does not know."""
    if labels.shape[0] is None:
        size = ops.shape(labels)[0]
        yield size > 0, "A loss needs at least one sample; number of labels:", size
    if None in (labels.shape[0], _static_shape(embeddings) and embeddings.shape[0]):
        sizes = ops.stack([ops.shape(labels)[0], ops.size(embeddings[..., 0])])
        message = "A loss takes one label for each embedding; numbers of labels and embeddings:"
        yield sizes[0] == sizes[1], message, sizes


def _rules_of_labels(labels, num_classes):
    if _is_floating(labels):
        is_whole = ops.logical_and(ops.isfinite(labels), labels == ops.floor(labels))
        yield _rule(is_whole, labels, "Labels must be whole numbers")
        dtype = keras.backend.standardize_dtype(labels.dtype)
        limit = _WHOLE_BELOW[dtype]
        message = f"Labels of {dtype}, which lacks whole numbers from {limit} on, must be smaller"
        yield _rule(ops.abs(labels) < limit, labels, message)
    elif keras.backend.standardize_dtype(labels.dtype).startswith("uint"):
        signed = available("int64")
        labels = ops.cast(labels, signed)  # numbers beyond its range become negative
        message = f"Labels must lie in 0 to {np.iinfo(signed).max}; as {signed}, one is"
        yield _rule(labels >= 0, labels, message)
    if num_classes is not None:
        labels = ops.cast(labels, available("int64"))
        is_class = ops.logical_and(labels >= 0, labels <= num_classes - 1)
        message = f"Labels must lie in 0 to {num_classes - 1} (num_classes={num_classes})"
        yield _rule(is_class, labels, message)


def _rule_of_norms(embeddings):
    dtype = keras.backend.standardize_dtype(embeddings.dtype)
    largest = largest_norm(dtype)
    square_norms = ops.sum(ops.square(embeddings), axis=-1)
    is_finite = ops.all(ops.isfinite(embeddings), axis=-1)
    is_short = ops.logical_not(ops.logical_and(is_finite, square_norms > largest**2))
    message = f"A loss that does not normalise {dtype} embeddings takes norms up to {largest:.2g}"
    return _rule(is_short, ops.sqrt(square_norms), message)


def _rule(is_met, values, message):
    """A rule for every value; the error shows the smallest value that breaks it."""
    dtype = keras.backend.standardize_dtype(values.dtype)
    highest = math.inf if _is_floating(values) else np.iinfo(dtype).max
    broken = ops.where(is_met, ops.cast(highest, dtype), values)
    return ops.all(is_met), message + ", received", ops.min(broken)


def _is_floating(tensor):
    return keras.backend.is_float_dtype(keras.backend.standardize_dtype(tensor.dtype))
