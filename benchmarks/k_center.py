"""What greedy k-center selection costs beside the matrix-vector products it needs.

`.venv/bin/python benchmarks/k_center.py` prints times taken alternately in one run: one call for
11,318 classes with a pool of 7 and k = 4 each, and one pool of 60,000 points with k = 100. The
products are those of the pool with the given centres and with each chosen point.
`--points` and `--classes` make it smaller.
"""

import argparse

import numpy as np
import tensorflow as tf
from measure import medians
from rich.console import Console
from rich.table import Table

from gsp_tf.ops import greedy_k_center

DIM = 128
ROUNDS = 7


def products(pool, centers, k):
    """The products of the pool with the centres and k of its points, one after the other."""
    total = tf.zeros_like(pool[..., 0])
    for index in range(k):
        total += tf.linalg.matvec(pool, pool[..., index, :])
    for index in range(centers.shape[-2]):
        total += tf.linalg.matvec(pool, centers[..., index, :])
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, default=11_318)
    parser.add_argument("--points", type=int, default=60_000)
    options = parser.parse_args()
    table = Table(title=f"Greedy k-center, {DIM} dimensions")
    for column in ("pools", "centres", "k", "products, ms", "selection, ms", "ratio"):
        table.add_column(column, justify="left" if column == "pools" else "right")
    rng = np.random.default_rng(0)
    for batch, size, num_centers, k in (
        ((options.classes,), 7, 4, 4),
        ((), options.points, 1, 100),
    ):
        pool, centers = (
            tf.constant(rng.normal(size=(*batch, count, DIM)).astype("float32"))
            for count in (size, num_centers)
        )
        functions = {"products": tf.function(products), "selection": greedy_k_center}
        taken = medians(functions, (pool, centers, k), ROUNDS)
        table.add_row(
            f"{(*batch, size)}",
            str(num_centers),
            str(k),
            *(f"{taken[name]:.1f}" for name in functions),
            f"{taken['selection'] / taken['products']:.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
