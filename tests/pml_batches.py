"""The batches of `tools/pml/reference.py`, on which pytorch-metric-learning ran."""

import numpy as np

BATCHES = (
    "random", "ties", "singles", "one_class", "no_positives", "coincident", "zeros", "square",
)  # fmt: skip


def same(actual, expected, rtol):
    scale = max(np.abs(expected).max(initial=0), 1e-9)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * scale)


def batches_of(case):
    """Names, labels, embeddings and rows of the batches, which lie one after the other."""
    start = 0
    for name in BATCHES:
        labels, embeddings = case[f"{name}/labels"], case[f"{name}/embeddings"]
        rows = slice(start, start + len(labels))
        start = rows.stop
        yield name, labels, embeddings, rows
