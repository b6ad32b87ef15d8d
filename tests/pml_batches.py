"""The batches of `tools/pml/reference.py`, on which pytorch-metric-learning ran."""

import numpy as np
from gradients import value_and_gradients

BATCHES = (
    "random", "ties", "singles", "one_class", "no_positives", "coincident", "zeros", "square",
)  # fmt: skip


def same(actual, expected, rtol, least=1e-9):
    scale = max(np.abs(expected).max(initial=0), least)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * scale)


def batches_of(case):
    """Names, labels, embeddings and rows of the batches, which lie one after the other."""
    start = 0
    for name in BATCHES:
        labels, embeddings = case[f"{name}/labels"], case[f"{name}/embeddings"]
        rows = slice(start, start + len(labels))
        start = rows.stop
        yield name, labels, embeddings, rows


def compare(
    case,
    key,
    make,
    names=BATCHES,
    skip=(),
    skip_gradients=(),
    rtol=1e-5,
    of_weights=np.asarray,
    zeros_rest=False,
):
    """Compare a loss with the library in values and gradients; returns on how many batches.

    The arrays of the library have names that begin with the key, and a loss is made for each
    batch anew. Values differ in some batches, gradients in others, which are left out.
    `of_weights` transforms the gradient of the library; `zeros_rest` says that embeddings of
    zeros get no gradient.
    """
    values, start, compared = case[f"{key}/values"], 0, 0
    for number, name in enumerate(names):
        labels, embeddings = case[f"{name}/labels"], case[f"{name}/embeddings"]
        expected = case[f"{key}/gradients"][start : (start := start + len(labels))]
        value, *gradients = value_and_gradients(make(), labels, embeddings)
        assert np.isfinite(value) and all(np.isfinite(g).all() for g in gradients)
        if name in skip or not np.isfinite(values[number]):
            continue
        compared += 1
        same(value, values[number], rtol)
        is_zero = ~embeddings.any(axis=1)
        assert not zeros_rest or not gradients[0][is_zero].any()
        if name in skip_gradients:
            continue
        if np.isfinite(expected).all():
            same(gradients[0][~is_zero], expected[~is_zero], max(rtol, 1e-4))
        weights_gradient = case.get(f"{key}/weights_gradients", np.full(len(names), np.nan))[number]
        if np.isfinite(weights_gradient).all():
            same(gradients[1], of_weights(weights_gradient), 1e-4)
    return compared
