"""The distances that a loss may measure."""

from dataclasses import dataclass
from typing import Literal, get_args

import keras
import numpy as np
from keras import ops

from gsp_tf._backend import custom_gradient
from gsp_tf._config import Guarded
from gsp_tf._numerics import at_least_float32, relative_rounding
from gsp_tf._typing import Tensor
from gsp_tf.ops import l2_normalize, pairwise_distances

DistanceName = Literal[
    "euclidean",
    "squared_euclidean",
    "angular",
    "cosine",
    "dot_product",
    "lp",
    "signal_to_noise",
]


class Distance(Guarded):
    """Base of the distances; a loss takes one, or the name of one of this module.

    A subclass implements `__call__(x, y, where=True) -> (a, b)` of rows x `(a, D)` and y `(b, D)`.
    The pairs that are not `where` may hold anything. Every constructor argument is an attribute of
    the same name; these form the config.

    Example:
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> class Chebyshev(Distance):
        ...     def __call__(self, x, y, where=True):
        ...         return ops.max(ops.abs(x[:, None] - y[None, :]), axis=-1)
        >>> loss = ContrastiveLoss(distance=Chebyshev(), normalize=False)
        >>> float(loss([0, 0], [[0.0, 0.0], [3.0, 4.0]]))
        4.0
    """

    def __call__(self, x: Tensor, y: Tensor, where: Tensor | bool = True) -> Tensor:
        raise NotImplementedError

    def is_defined(self, x: Tensor) -> Tensor | bool:
        """Whether distances from rows `(a, D)` are defined, as booleans `(a, 1)`, or True for all.

        An anchor without them is left out.
        """
        return True


class Euclidean(Distance):
    """`‖x - y‖`, with finite gradients.

    Example:
        >>> Euclidean()([[0.0, 0.0]], [[3.0, 4.0]]).numpy()
        array([[5.]], dtype=float32)
    """

    def __call__(self, x: Tensor, y: Tensor, where: Tensor | bool = True) -> Tensor:
        return pairwise_distances(x, y, where=where)


class SquaredEuclidean(Distance):
    """`‖x - y‖²`.

    Example:
        >>> SquaredEuclidean()([[0.0, 0.0]], [[3.0, 4.0]]).numpy()
        array([[25.]], dtype=float32)
    """

    def __call__(self, x: Tensor, y: Tensor, where: Tensor | bool = True) -> Tensor:
        return pairwise_distances(x, y, squared=True, where=where)


class Cosine(Distance):
    """1 minus the cosine similarity, 0 within its rounding error; also called "angular".

    Example:
        >>> Cosine()([[1.0, 0.0]], [[3.0, 4.0]]).numpy().round(3)
        array([[0.4]], dtype=float32)
    """

    def __call__(self, x: Tensor, y: Tensor, where: Tensor | bool = True) -> Tensor:
        x, y = l2_normalize(x), l2_normalize(y)
        distances = 1.0 - ops.matmul(x, ops.transpose(y))
        # Rounding shall not decide whether coincident vectors cost something.
        return ops.where(distances <= relative_rounding(x), 0.0, distances)


class DotProduct(Distance):
    """1 minus the inner product.

    Example:
        >>> DotProduct()([[1.0, 0.0]], [[3.0, 4.0]]).numpy()
        array([[-2.]], dtype=float32)
    """

    def __call__(self, x: Tensor, y: Tensor, where: Tensor | bool = True) -> Tensor:
        x, y = at_least_float32(x, y)
        return 1.0 - ops.matmul(x, ops.transpose(y))


@dataclass(eq=False)
class LpDistance(Distance):
    """`(Σ_k |x_k - y_k|^p)^(power / p)`, with zero gradient at coincident points.

    Args:
        p: order of the norm, at least 1; `normalize` of a loss divides by the L2 norm nevertheless.
        power: exponent, positive.

    Example:
        >>> LpDistance(p=1.0)([[0.0, 0.0]], [[3.0, 4.0]]).numpy()
        array([[7.]], dtype=float32)
    """

    p: float = 2.0
    power: float = 1.0

    unscheduled = ("p", "power")

    def __post_init__(self) -> None:
        check_powers(self.p, self.power)

    def __call__(self, x: Tensor, y: Tensor, where: Tensor | bool = True) -> Tensor:
        if self.p == self.power == 2:
            return pairwise_distances(x, y, squared=True, where=where)
        of_two = self.p == 2
        distances = pairwise_distances(x, y, where=where) if of_two else _lp_distances(x, y, self.p)
        if self.power == 1:
            return distances
        coincident = distances == 0
        return ops.where(coincident, 0.0, ops.where(coincident, 1.0, distances) ** self.power)


def _lp_distances(x, y, p):
    """`(Σ_k |x_ik - y_jk|^p)^(1/p)` `(a, b)` of rows, with zero gradient at coincident points."""
    # One dimension is added at a time, in the gradient too, so that no more than a few matrices of
    # the size of the result are held.
    x, y = at_least_float32(x, y)
    num_dimensions = x.shape[-1]

    @custom_gradient
    def distances(x, y):
        x, y = ops.transpose(x), ops.transpose(y)

        def fold(step):
            def body(k, total):
                difference = ops.take(x, k, axis=0)[:, None] - ops.take(y, k, axis=0)[None, :]
                return step(total, ops.abs(difference))

            start = ops.zeros_like(x[0][:, None] + y[0][None, :])
            return ops.fori_loop(0, num_dimensions, body, start)

        largest = fold(ops.maximum)  # powers of larger numbers than 1 could overflow
        scale = ops.where(largest > 0, largest, 1.0)
        powers = fold(lambda total, difference: total + (difference / scale) ** p)
        found = largest * powers ** (1.0 / p)

        def gradient(upstream):
            norm = ops.where(found > 0, found, 1.0)

            def of_dimension(rows):
                difference = rows[0][:, None] - rows[1][None, :]
                share = (ops.abs(difference) / norm) ** (p - 1.0)
                slopes = upstream * ops.sign(difference) * share
                return ops.sum(slopes, axis=1), -ops.sum(slopes, axis=0)

            return tuple(map(ops.transpose, ops.map(of_dimension, (x, y))))

        return (found,), gradient

    return distances(x, y)[0]


def check_powers(p: float, power: float) -> None:
    """Raise ValueError for the numbers of no norm."""
    if not (1 <= p < float("inf") and 0 < power < float("inf")):
        raise ValueError(
            f"p must be finite and at least 1, and power finite and positive, received p={p} and "
            f"power={power}."
        )


class SignalToNoise(Distance):
    """`var(y - x) / var(x)`: the variance of the difference over that of the anchor x.

    "Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning" (Yuan et al., CVPR
    2019). It is 0 where x has no signal; a loss leaves such an anchor out.

    Example:
        >>> SignalToNoise()([[1.0, 0.0]], [[0.0, 1.0]]).numpy()
        array([[4.]], dtype=float32)
    """

    def __call__(self, x: Tensor, y: Tensor, where: Tensor | bool = True) -> Tensor:
        x, y = at_least_float32(x, y)
        centered, squares, has_signal = _signals(x)
        counted = ops.logical_and(has_signal, where)
        centered_y = _signals(y)[0]
        noises = pairwise_distances(centered, centered_y, squared=True, where=counted)
        return ops.where(has_signal, noises / ops.where(has_signal, squares, 1.0), 0.0)

    def is_defined(self, x: Tensor) -> Tensor:
        return _signals(x)[2]


def _signals(x):
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


_BY_NAME = dict(
    euclidean=Euclidean,
    squared_euclidean=SquaredEuclidean,
    angular=Cosine,
    cosine=Cosine,
    dot_product=DotProduct,
    lp=LpDistance,
    signal_to_noise=SignalToNoise,
)


def as_distance(given: Distance | DistanceName | None) -> Distance | None:
    """The distance that a loss is given, or that a name means; ValueError for anything else."""
    if given is None or isinstance(given, Distance):
        return given
    if given not in get_args(DistanceName):
        raise ValueError(
            f"distance must be one of {', '.join(get_args(DistanceName))}, or a Distance such as "
            f"LpDistance(p=1.0), received {given!r}."
        )
    return _BY_NAME[given]()
