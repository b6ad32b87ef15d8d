"""The distances that a loss takes by name."""

from typing import Literal

import keras
import numpy as np
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._inputs import check_choice
from gsp_tf.ops import l2_normalize, lp_distances, pairwise_distances

Distance = Literal[
    "euclidean",
    "squared_euclidean",
    "angular",
    "cosine",
    "dot_product",
    "lp",
    "signal_to_noise",
]


def check_distance(name: Distance | None, p: float, power: float) -> None:
    """Raise ValueError for a name that is not a `Distance`, or numbers that it does not take."""
    if name is not None:
        check_choice("distance", name, Distance)
    if name != "lp" and (p, power) != (2.0, 1.0):
        raise ValueError(
            f"p and power belong to distance='lp', received p={p} and power={power} with "
            f"distance={name!r}."
        )
    if not (1 <= p < float("inf") and 0 < power < float("inf")):
        raise ValueError(
            f"p must be finite and at least 1, and power finite and positive, received p={p} and "
            f"power={power}."
        )


def distances_named(
    name: Distance, p: float, power: float, x: Tensor, y: Tensor, where: Tensor | bool = True
) -> Tensor:
    """Distances `(a, b)` of the rows of x and y; `where` is that of `pairwise_distances`."""
    if name == "dot_product":
        return 1.0 - ops.matmul(x, ops.transpose(y))
    if name in ("angular", "cosine"):
        return ops.relu(1.0 - ops.matmul(l2_normalize(x), ops.transpose(l2_normalize(y))))
    if name == "signal_to_noise":
        return _signal_to_noise(x, y, where)
    if name == "squared_euclidean" or (name == "lp" and p == power == 2):
        return pairwise_distances(x, y, squared=True, where=where)
    if name == "euclidean" or p == 2:
        distances = pairwise_distances(x, y, where=where)
    else:
        distances = lp_distances(x, y, p)
    if power == 1:
        return distances
    coincident = distances == 0
    return ops.where(coincident, 0.0, ops.where(coincident, 1.0, distances) ** power)


def signals(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Centred rows `(a, D)`, their squared norms `(a, 1)`, and which of them are not rounding."""
    centered = x - ops.mean(x, axis=1, keepdims=True)
    squares = ops.sum(ops.square(centered), axis=1, keepdims=True)
    powers = ops.sum(ops.square(x), axis=1, keepdims=True)
    limits = np.finfo(keras.backend.standardize_dtype(squares.dtype))
    # Below, the centred components are no more than the rounding error of the mean.
    rounding = 16.0 * float(limits.eps) ** 2
    # The square of a signal is part of the gradient, and must not be 0 where the signal is not.
    smallest = float(limits.tiny) ** 0.5
    return centered, squares, squares > ops.maximum(rounding * powers, smallest)


def _signal_to_noise(x, y, where):
    """`var(y_j - x_i) / var(x_i)`; 0 where x_i has no signal."""
    centered, squares, has_signal = signals(x)
    counted = ops.logical_and(has_signal, where)
    noises = pairwise_distances(centered, signals(y)[0], squared=True, where=counted)
    return ops.where(has_signal, noises / ops.where(has_signal, squares, 1.0), 0.0)
