import numpy as np
import pytest

from gsp_tf.evaluation import (
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
    *(lambda embeddings, of=of: of(embeddings, Y) for of in LABELLED),
    lambda embeddings: covering_radius_curve(embeddings, 2),
    spectral_decay,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    "embeddings, error, message",
    [
        (BROKEN, ValueError, "2 of 4 rows"),
        (X + 1e300, ValueError, "4 of 4 rows"),
        (X[:, 0], ValueError, r"\(N, D\) array; received \(4,\)"),
        (X[None], ValueError, r"received \(1, 4, 2\)"),
        (X[:0], ValueError, r"non-empty .* received \(0, 2\)"),
        (X[:, :0], ValueError, r"received \(4, 0\)"),
        (X.astype(str), TypeError, "real numbers; received dtype <U"),
        (X.astype(complex), TypeError, "complex128"),
    ],
)
def test_refuses_embeddings(function, embeddings, error, message):
    with pytest.raises(error, match=message):
        function(embeddings)


@pytest.mark.parametrize("function", LABELLED)
@pytest.mark.parametrize(
    "labels, error, message",
    [
        (Y[:3], ValueError, r"\(4,\) or \(4, 1\).*\(3,\)"),
        (np.eye(4, dtype=int), ValueError, r"received \(4, 4\)"),
        (Y.astype(float), TypeError, "integers; received dtype float64"),
        (Y.astype(bool), TypeError, "bool"),
    ],
)
def test_refuses_labels(function, labels, error, message):
    with pytest.raises(error, match=message):
        function(X, labels)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8"])
def test_takes_any_real_embeddings(function, dtype):
    embeddings = np.array([[1, 0], [2, 2], [-3, 1], [0, 4]])
    assert repr(function(embeddings.astype(dtype))) == repr(function(embeddings.astype("float32")))
