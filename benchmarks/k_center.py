"""Costs of greedy k-center selection relative to the matrix-vector products that it needs.

`.venv/bin/python benchmarks/k_center.py` prints times taken alternately in one run: one call for
11,318 classes with a pool of 7 and k = 4 each, and one pool of 60,000 points with k = 100. The
products are those of the pool with the given centres, then with k points one after the other.
"""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from measure import medians, rounds
from results import Ratio, Table, main

from gsp_tf.ops import greedy_k_center

DIM = 128
AT_MOST = 1.3


@dataclass(frozen=True)
class Setting:
    """Shape of the pools without the dimension, number of given centres, points to choose."""

    pools: tuple
    num_centers: int
    k: int


FULL = Setting((11_318, 7), 4, 4), Setting((60_000,), 1, 100)
QUICK = Setting((20, 7), 4, 4), Setting((200,), 1, 10)


@tf.function
def products(pool, centers, k):
    """The products of the pool with the centres, and with one point after another.

    As in the selection, each product determines the next point.
    """
    total = tf.reduce_sum(tf.matmul(pool, centers, transpose_b=True), axis=-1)
    for index in tf.range(k):
        with tf.control_dependencies([total]):
            total += tf.linalg.matvec(pool, pool[..., index, :])
    return total


def compared(setting, num_rounds):
    rng = np.random.default_rng(0)
    *batch, _ = setting.pools
    shapes = (*setting.pools, DIM), (*batch, setting.num_centers, DIM)
    pool, centers = (tf.constant(rng.normal(size=shape), "float32") for shape in shapes)
    functions = {"products": products, "selection": greedy_k_center}
    taken = medians(functions, (pool, centers, setting.k), num_rounds)
    ratio = Ratio(taken["selection"] / taken["products"], AT_MOST)
    pools = " x ".join(f"{size:,}" for size in setting.pools)
    return pools, setting.num_centers, setting.k, *taken.values(), ratio


def run(quick=False):
    rows = [compared(setting, rounds(quick)) for setting in (QUICK if quick else FULL)]
    columns = ["pools", "centres", "k", "products, ms", "selection, ms", "times products"]
    return [Table(f"Greedy k-center, {DIM} dimensions", columns, rows)]


if __name__ == "__main__":
    main(run)
