"""Greedy k-center selection (Gürbüz, thesis 2022, Algorithm 2)."""

import math
from functools import partial

from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._backend import argmax, compiled
from gsp_tf._numerics import at_least_float32
from gsp_tf._typing import Tensor
from gsp_tf.ops.distances import common_unit


def greedy_k_center(pool: Tensor, centers: Tensor, k: int) -> Tensor:
    """Choose k points of a pool, each the farthest from all centres so far.

    Each choice is `i* = argmax_i min_c ||pool_i - c||` over the given centres and the points
    already chosen (thesis, Algorithm 2). The result is a 2-approximation of the k-center problem:
    its covering radius is at most twice the best possible. Ties, up to rounding, go to the lower
    index, and no point is chosen twice.

    Args:
        pool: float tensor `(..., b, D)`, the points to choose from.
        centers: float tensor `(..., r, D)`, the existing centres; r may be 0, and the first choice
            is then the first point of the pool.
        k: number of points to choose, 1 to b.

    Returns:
        int32 tensor `(..., k)`, indices into the pool in the order of choice.

    Example:
        >>> import numpy as np
        >>> pool = np.array([[0.0], [1.0], [5.0], [9.0]], "float32")
        >>> greedy_k_center(pool, np.zeros((1, 1), "float32"), 2).numpy().tolist()
        [3, 2]
    """
    check_sizes(k=k)
    pool, centers = at_least_float32(pool, centers)
    pool_size = pool.shape[-2]
    if pool_size is not None and k > pool_size:
        raise ValueError(
            f"greedy_k_center can choose 1 to {pool_size} of a pool {tuple(pool.shape)}, "
            f"received k={k}."
        )
    return _choices(pool, centers, k)


@compiled
def _choices(pool, centers, k):
    unit = common_unit(pool, centers)
    pool, centers = pool / unit, centers / unit
    # Half squared distances, from matrix-vector products. The origin is a point of the pool.
    pool, centers = pool - pool[..., :1, :], centers - pool[..., :1, :]
    norms, products_with = _norms_and_products(pool, k)
    nearest = ops.full_like(norms, float("inf"))
    if centers.shape[-2] != 0:
        products = ops.matmul(pool, ops.swapaxes(centers, -1, -2))
        center_norms = _half_squares(centers)
        nearest = ops.min(
            ops.expand_dims(norms, -1) - (products - ops.expand_dims(center_norms, -2)), axis=-1
        )
    *batch, size = ops.shape(norms)
    flat_norms = ops.reshape(norms, (-1,))
    starts = ops.reshape(ops.arange(math.prod(batch), dtype="int32") * size, batch)

    def choose(step, state):
        nearest, chosen = state
        index = argmax(nearest)
        row = starts + index
        norm = ops.expand_dims(ops.take(flat_norms, row, axis=0), -1)
        nearest = ops.minimum(nearest, norms - products_with(row) + norm)
        rows = ops.reshape(row, (-1,))
        never = ops.full_like(rows, float("-inf"), dtype=nearest.dtype)
        nearest = ops.scatter_update(ops.reshape(nearest, (-1,)), rows[:, None], never)
        nearest = ops.reshape(nearest, ops.shape(norms))
        chosen = ops.where(ops.arange(k, dtype="int32") == step, ops.expand_dims(index, -1), chosen)
        return nearest, chosen

    chosen = ops.zeros((*batch, k), dtype="int32")
    return ops.fori_loop(0, k, choose, (nearest, chosen))[1]


def _norms_and_products(pool, k):
    """Half squared norms `(..., b)`, and a function for products with rows of the flat pool."""
    *_, size, dim = ops.shape(pool)
    if pool.shape[-2] is not None and size <= min(dim, 4 * k):
        # With so few points, one pass over the pool gives all products and needs no more memory.
        products = ops.matmul(pool, ops.swapaxes(pool, -1, -2))
        norms = ops.diagonal(products, axis1=-2, axis2=-1) / 2
        return norms, partial(ops.take, ops.reshape(products, (-1, size)), axis=0)
    points = ops.reshape(pool, (-1, dim))

    def products_with(row):
        return ops.matmul(pool, ops.expand_dims(ops.take(points, row, axis=0), -1))[..., 0]

    return _half_squares(pool), products_with


def _half_squares(x):
    return ops.sum(ops.square(x), axis=-1) / 2
