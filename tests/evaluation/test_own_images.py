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


MEASURES = [
    lambda x, y, *others: retrieval_metrics(x, y, *others),
    lambda x, y, *others: class_wise_map(x, y, *others),
    lambda x, y, *others: ranking_metrics(x, y, *others),
    lambda x, y, *others: reranking_metrics(x, y, *others),
    lambda x, y, references, labels: ensemble_metrics([[x]], y, [[references]], labels),
    lambda x, y, *others: gallery_metrics(x, y, ["one"] * len(x), *others),
    lambda x, y, *others: open_set_identification(x, y + (y == 3), *others, [0.5]),
]


@pytest.mark.parametrize("measure", MEASURES)
def test_references_that_are_the_queries_are_warned_of(measure):
    with pytest.warns(UserWarning, match="Each of the 40 queries finds itself") as found:
        measure(X, LABELS, X, LABELS)
    [line] = (linecache.getline(warning.filename, warning.lineno) for warning in found)
    assert line.strip().startswith("lambda")  # the line of the user
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure(X, LABELS, X + 1e-3, LABELS)
        measure(X, LABELS, X[::-1], LABELS[::-1])
