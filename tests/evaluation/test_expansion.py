import numpy as np
import pytest
from clusters import clusters

from gsp_tf.evaluation import PCAWhitening, augment_database, expand_queries


def naive(queries, references, n, alpha, own):
    """The definition, one query at a time."""
    expanded = []
    for row, query in enumerate(queries):
        similarities = references @ query
        if own:
            similarities[row] = -np.inf
        total = query.copy()
        for i in np.argsort(-similarities)[:n]:
            total += max(similarities[i], 0) ** alpha * references[i]
        expanded.append(total / np.linalg.norm(total))
    return np.array(expanded)


@pytest.mark.parametrize("alpha", [1.0, 3.0])
def test_equals_the_definition(alpha):
    (queries, _), (references, _) = clusters(12), clusters(50, seed=1)
    found = expand_queries(3 * queries, references, 7, alpha)
    np.testing.assert_allclose(found, naive(queries, references, 7, alpha, False), atol=1e-6)
    found = augment_database(references, 7, alpha)
    np.testing.assert_allclose(found, naive(references, references, 7, alpha, True), atol=1e-6)


def test_whitened_embeddings_are_those_of_the_authors_formula():
    embeddings = np.random.default_rng(0).normal(size=(200, 6)) @ np.diag([5, 3, 2, 1, 0.5, 0])
    whitening = PCAWhitening(embeddings)
    centred = embeddings - embeddings.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred / 200)
    expected = (centred @ vectors / np.sqrt(np.maximum(values, 1e-30)))[:, :0:-1]
    assert whitening.dim == 5
    np.testing.assert_allclose(whitening.variances, values[:0:-1], rtol=1e-5)
    for dim in (5, 2):
        of_length_1 = expected[:, :dim] / np.linalg.norm(expected[:, :dim], axis=1, keepdims=True)
        np.testing.assert_allclose(np.abs(whitening(embeddings, dim)), abs(of_length_1), atol=1e-4)
    assert PCAWhitening(np.random.default_rng(0).normal(size=(99, 40))).sweep() == [40, 20, 10]
    assert whitening.sweep([2, 4, 4, 64]) == [4, 2]


def test_refuses_what_makes_no_sense():
    embeddings, _ = clusters(30)
    for function, message in [
        (lambda: expand_queries(embeddings, alpha=-1), "alpha must be at least 0 .* received -1"),
        (
            lambda: expand_queries(embeddings, neighbours=30),
            "neighbours must be between 1 and 29; rec",
        ),
        (
            lambda: expand_queries(embeddings[:3], embeddings[:2]),
            "neighbours .* 1 and 2; received 10",
        ),
        (
            lambda: augment_database(embeddings, 0),
            "neighbours must be between 1 and 29; received 0",
        ),
        (lambda: augment_database(np.full((3, 2), np.inf)), "queries must be finite"),
        (lambda: PCAWhitening(np.ones((4, 3))), "The 4 embeddings are all the same"),
        (lambda: PCAWhitening(embeddings)(embeddings, 9), "dim must be between 1 and 8, .* 9"),
        (lambda: PCAWhitening(embeddings)(embeddings[:, :3]), "must have dimension 8; received 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            function()
