import linecache
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.evaluation import (
    class_wise_map,
    clustering_metrics,
    covering_radius_curve,
    embedding_density,
    ensemble_metrics,
    open_set_identification,
    reranking_metrics,
    retrieval_metrics,
    spectral_decay,
)

Y = np.array([0, 0, 1, 1])
BROKEN = np.array([[0, np.nan], [np.inf, 1], [0, 0], [1, 1]])
LABELLED = [class_wise_map, clustering_metrics, embedding_density]
FUNCTIONS = [
    *(lambda embeddings, metric=metric: metric(embeddings, Y) for metric in LABELLED),
    lambda embeddings: covering_radius_curve(embeddings, 2),
    spectral_decay,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_metrics_check_embeddings_and_take_any_real_ones(function):
    with pytest.raises(ValueError, match="2 of 4 rows"):
        function(BROKEN)
    embeddings = np.array([[1, 0], [2, 2], [-3, 1], [0, 4]])
    expected = repr(function(embeddings.astype("float32")))
    for dtype in ("float16", "float64", "int8"):
        assert repr(function(embeddings.astype(dtype))) == expected


@pytest.mark.parametrize("metric", LABELLED)
@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    names=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=5, max_size=5, unique=True),
)
def test_names_and_order_of_classes_do_not_matter(metric, seed, names):
    rng = np.random.default_rng(seed)
    labels, order, embeddings = np.arange(30) % 5, rng.permutation(30), rng.normal(size=(30, 4))
    if metric is clustering_metrics:  # clusters that k-means finds wherever it starts
        embeddings = np.eye(5)[np.r_[:5, rng.integers(0, 5, 25)]]
    expected = metric(embeddings, labels)
    if metric is class_wise_map:
        expected = expected[np.argsort(names)]
    found = metric(embeddings[order], np.array(names)[labels[order]])
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("metric", "offset", "scale"),
    [
        *((retrieval_metrics, *x) for x in ((1000.0, 1.0), (0.0, 1e25), (0.0, 1e-30))),
        *((clustering_metrics, *x) for x in ((1000.0, 1.0), (0.0, 1e30), (0.0, 1e-30))),
        *((embedding_density, 0.0, scale) for scale in (1e-38, 1e36)),
        *((lambda x, _: spectral_decay(x), 0.0, scale) for scale in (1e-38, 1e36)),
        (lambda x, _: covering_radius_curve(x, 9) / np.ptp(x), 99.0, 2.0**-99),
        (lambda x, _: covering_radius_curve(x, 9) / np.ptp(x), -99.0, 2.0**99),
    ],
)
def test_far_from_the_origin_and_extreme_scales(metric, offset, scale):
    rng = np.random.default_rng(1)
    embeddings, labels = rng.integers(-99, 99, (80, 6)).astype(float), rng.integers(0, 8, 80)
    moved = metric((embeddings + offset) * scale, labels)
    assert moved == pytest.approx(metric(embeddings, labels), rel=1e-5)


MEASURES = [
    lambda x, y, *others: retrieval_metrics(x, y, *others),
    lambda x, y, *others: reranking_metrics(x, y, *others),
    lambda x, y, references, labels: ensemble_metrics([[x]], y, [[references]], labels),
    lambda x, y, *others: open_set_identification(x, y + (y == 3), *others, [0.5]),
]


@pytest.mark.parametrize("measure", MEASURES)
def test_references_that_are_the_queries_are_warned_of(measure):
    x, labels = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 4
    with pytest.warns(UserWarning, match="Each of the 40 queries finds itself") as found:
        measure(x, labels, x, labels)
    [line] = (linecache.getline(warning.filename, warning.lineno) for warning in found)
    assert line.strip().startswith("lambda")  # the line of the user
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure(x, labels, x + 1e-3, labels)
        measure(x, labels, x[::-1], labels[::-1])
