import linecache
import warnings

import numpy as np
import pytest

from gsp_tf.evaluation import (
    class_wise_map,
    ensemble_metrics,
    gallery_metrics,
    open_set_identification,
    ranking_metrics,
    reranking_metrics,
    retrieval_metrics,
)

X, LABELS = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 4


def with_folds(x, labels, references, reference_labels):
    ensemble_metrics([[x]], labels, [[references]], reference_labels)


def with_galleries(x, labels, references, reference_labels):
    gallery_metrics(x, labels, ["one"] * len(references), references, reference_labels)


def with_impostors(x, labels, references, reference_labels):
    open_set_identification(x, labels + (labels == 3), references, reference_labels, [0.5])


CALLED = {
    with_folds: "ensemble_metrics(",
    with_galleries: "gallery_metrics(",
    with_impostors: "open_set_identification(",
}


@pytest.mark.parametrize(
    "measure",
    [
        retrieval_metrics,
        class_wise_map,
        ranking_metrics,
        reranking_metrics,
        with_folds,
        with_galleries,
        with_impostors,
    ],
)
def test_references_that_are_the_queries_are_warned_of(measure):
    with pytest.warns(UserWarning, match="Each of the 40 queries finds itself") as found:
        measure(X, LABELS, X, LABELS)
    [line] = (linecache.getline(warning.filename, warning.lineno) for warning in found)
    assert CALLED.get(measure, "measure(X") in line  # the line of the user
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure(X, LABELS, X + 1e-3, LABELS)
        measure(X, LABELS, X[::-1], LABELS[::-1])
