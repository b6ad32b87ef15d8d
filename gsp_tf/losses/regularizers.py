"""Regularisers of embeddings and of proxies."""

from dataclasses import dataclass

import keras
from keras import ops

from gsp_tf._arguments import check_at_least, check_sizes
from gsp_tf._backend import absolute
from gsp_tf._config import Guarded
from gsp_tf._numerics import at_least_float32
from gsp_tf._typing import Tensor
from gsp_tf.losses.distances import check_powers
from gsp_tf.ops import l2_normalize, pairwise_distances


@dataclass(eq=False)
class RowRegularizer(Guarded, keras.regularizers.Regularizer):
    """Base of the regularisers `λ mean_i r_i` of the rows of a matrix.

    A subclass implements `terms(rows) -> r`. Every constructor argument is an attribute of the same
    name; these form the config. A loss takes one as `embedding_regularizer` or
    `proxies_regularizer`, and any layer of Keras as a regulariser whose rows are vectors.

    Args:
        weight: λ >= 0.

    Example:
        >>> class First(RowRegularizer):
        ...     def terms(self, rows):
        ...         return rows[:, 0]
        >>> float(First(weight=2.0)([[1.0, 5.0], [3.0, 5.0]]))
        4.0
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        check_at_least(0, weight=self.weight)

    def __call__(self, x: Tensor) -> Tensor:
        self.keep_if_traced(x)
        return self.weight * ops.mean(self.terms(at_least_float32(x)))

    def terms(self, rows: Tensor) -> Tensor:
        """Terms r of rows `(N, D)`, at least one."""
        raise NotImplementedError


class CenterInvariantRegularizer(RowRegularizer):
    """Keeps the squared norms of proxies near their mean.

    `λ mean_i (‖w_i‖² - mean_j ‖w_j‖²)² / 4`. "Deep Face Recognition with Center Invariant Loss"
    (Wu et al., ACM MM Workshops 2017).

    Args:
        weight: λ.

    Example:
        >>> float(CenterInvariantRegularizer()([[1.0, 0.0], [0.0, 3.0]]))
        4.0
    """

    def terms(self, rows: Tensor) -> Tensor:
        squares = ops.sum(ops.square(rows), axis=1)
        return ops.square(squares - ops.mean(squares)) / 4.0


@dataclass(eq=False)
class LpRegularizer(RowRegularizer):
    """Keeps embeddings or proxies short.

    `λ mean_i ‖x_i‖_p^q`, with zero gradient at zero vectors.

    Args:
        weight: λ.
        p: order of the norm, at least 1.
        power: q, positive.

    Example:
        >>> float(LpRegularizer(p=1.0)([[1.0, -2.0], [0.0, 3.0]]))
        3.0
    """

    unscheduled = ("p",)

    p: float = 2.0
    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_powers(self.p, self.power)

    def terms(self, rows: Tensor) -> Tensor:
        largest = ops.stop_gradient(ops.max(ops.abs(rows), axis=1, keepdims=True))
        is_zero = largest == 0
        # Powers of larger numbers than 1 could overflow.
        shares = absolute(rows / ops.where(is_zero, 1.0, largest))
        powers = ops.sum(shares if self.p == 1 else shares**self.p, axis=1)
        is_zero, largest = is_zero[:, 0], largest[:, 0]
        norms = largest * ops.where(is_zero, 1.0, powers) ** (1.0 / self.p)
        return ops.where(is_zero, 0.0, ops.where(is_zero, 1.0, norms) ** self.power)


class RegularFaceRegularizer(RowRegularizer):
    """Turns each proxy away from the nearest other one.

    `λ mean_i max_{j≠i} cos(w_i, w_j)`. "RegularFace: Deep Face Recognition via Exclusive
    Regularization" (Zhao, Xu, Cheng, CVPR 2019). A single proxy costs nothing.

    Args:
        weight: λ.

    Example:
        >>> float(RegularFaceRegularizer()([[1.0, 0.0], [0.6, 0.8], [-2.0, 0.0]]))
        0.2
    """

    def terms(self, rows: Tensor) -> Tensor:
        rows = l2_normalize(rows)
        size = ops.shape(rows)[0]
        itself = ops.eye(size, dtype="bool")
        cosines = ops.matmul(rows, ops.transpose(rows))
        nearest = ops.max(ops.where(itself, -2.0, cosines), axis=1)
        return ops.where(ops.cast(size, rows.dtype) > 1, nearest, 0.0)


@dataclass(eq=False)
class SparseCentersRegularizer(RowRegularizer):
    """Pulls the centres of a class together, so that those merge that are not needed.

    `λ mean_c mean_{s<t} ‖ŵ_cs - ŵ_ct‖ / 2` over pairs of centres of a class, with unit vectors ŵ.
    "SoftTriple Loss: Deep Metric Learning Without Triplet Sampling" (ICCV 2019), eq. 12.
    `SoftTripleLoss` has it built in, with the weight `tau`.

    Args:
        weight: λ.
        centers_per_class: number of consecutive rows of a class, at least 2.

    Example:
        >>> float(SparseCentersRegularizer(centers_per_class=2)([[1.0, 0.0], [-1.0, 0.0]]))
        1.0
    """

    centers_per_class: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(2, centers_per_class=self.centers_per_class)

    def terms(self, rows: Tensor) -> Tensor:
        k, (num_rows, dim) = self.centers_per_class, rows.shape
        if num_rows is not None and num_rows % k:
            raise ValueError(f"{num_rows} rows do not divide into centers_per_class={k}.")
        centers = ops.reshape(l2_normalize(rows), (-1, k, dim))
        # Each pair appears twice in the distance matrix.
        return ops.sum(pairwise_distances(centers), axis=(1, 2)) / (2.0 * k * (k - 1))


class ZeroMeanRegularizer(RowRegularizer):
    """Keeps the mean component of each vector near 0, as signal-to-noise distances assume.

    `λ mean_i |Σ_k x_ik|`. "Signal-To-Noise Ratio: A Robust Distance Metric for Deep Metric
    Learning" (Yuan et al., CVPR 2019).

    Args:
        weight: λ.

    Example:
        >>> float(ZeroMeanRegularizer()([[1.0, -3.0], [2.0, 2.0]]))
        3.0
    """

    def terms(self, rows: Tensor) -> Tensor:
        return absolute(ops.sum(rows, axis=1))
