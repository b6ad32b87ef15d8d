import numpy as np
import pytest

from gsp_tf.evaluation import (
    checked_embeddings,
    checked_labels,
    class_wise_map,
    clustering_metrics,
    covering_radius_curve,
    embedding_density,
    spectral_decay,
)

X, Y = np.random.default_rng(0).normal(size=(4, 2)), np.array([0, 0, 1, 1])
BROKEN = np.array([[0, np.nan], [np.inf, 1], [0, 0], [1, 1]])
LABELLED = [class_wise_map, clustering_metrics, embedding_density]
FUNCTIONS = [
    *(lambda embeddings, metric=metric: metric(embeddings, Y) for metric in LABELLED),
    lambda embeddings: covering_radius_curve(embeddings, 2),
    spectral_decay,
]


@pytest.mark.parametrize(
    "embeddings, error, message",
    [
        (BROKEN, ValueError, "x must be finite in float32; 2 of 4 rows"),
        (X + 1e300, ValueError, "4 of 4 rows"),
        (X[:, 0], ValueError, r"\(N, D\) array; received \(4,\)"),
        (X[None], ValueError, r"received \(1, 4, 2\)"),
        (X[:0], ValueError, r"non-empty .* received \(0, 2\)"),
        (X[:, :0], ValueError, r"received \(4, 0\)"),
        (X.astype(str), TypeError, "real numbers; received dtype <U"),
        (X.astype(complex), TypeError, "complex128"),
    ],
)
def test_refuses_embeddings(embeddings, error, message):
    with pytest.raises(error, match=message):
        checked_embeddings(embeddings, "x")


@pytest.mark.parametrize(
    "labels, error, message",
    [
        (Y[:3], ValueError, r"y must have shape \(4,\) or \(4, 1\).*\(3,\)"),
        (np.eye(4, dtype=int), ValueError, r"received \(4, 4\)"),
        (Y.astype(float), TypeError, "integers; received dtype float64"),
        (Y.astype(bool), TypeError, "bool"),
    ],
)
def test_refuses_labels(labels, error, message):
    with pytest.raises(error, match=message):
        checked_labels(labels, 4, "y")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_metrics_check_embeddings_and_take_any_real_ones(function):
    with pytest.raises(ValueError, match="2 of 4 rows"):
        function(BROKEN)
    embeddings = np.array([[1, 0], [2, 2], [-3, 1], [0, 4]])
    expected = repr(function(embeddings.astype("float32")))
    for dtype in ("float16", "float64", "int8"):
        assert repr(function(embeddings.astype(dtype))) == expected
