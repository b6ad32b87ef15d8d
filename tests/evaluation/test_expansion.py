import numpy as np
import pytest
from clusters import clusters

from gsp_tf.evaluation import (
    RERANKINGS,
    ExactSearch,
    KReciprocalSearch,
    LearnedWhitening,
    PCAWhitening,
    Reranker,
    augment_database,
    expand_queries,
)


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


def test_learned_whitening_follows_its_equation():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 6
    points = rng.normal(size=(6, 4))[labels] + rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4))
    points = points.astype(np.float32)
    whiten = LearnedWhitening(points, labels)
    i, j = np.triu_indices(60, 1)
    is_matched = labels[i] == labels[j]
    projected = (points - points.mean(axis=0, dtype=float)) @ whiten._projection
    differences = projected[i] - projected[j]
    matched, different = (
        differences[of].T @ differences[of] / of.sum() for of in (is_matched, ~is_matched)
    )
    np.testing.assert_allclose(matched, np.eye(4), atol=1e-6)
    np.testing.assert_allclose(different, np.diag(whiten.variances), atol=1e-5)
    assert (np.diff(whiten.variances) < 0).all()
    lengths = np.linalg.norm(projected, axis=1, keepdims=True)
    np.testing.assert_allclose(whiten(points), projected / lengths, atol=1e-6)
    assert whiten(points, 2).shape == (60, 2)


@pytest.mark.parametrize("among", [False, True])
@pytest.mark.parametrize("method", [name for name in RERANKINGS if name != "transport"])
def test_each_method_is_the_search_that_it_names(method, among):
    images = np.random.default_rng(3).normal(size=(40, 6)).astype("float32")
    references, queries = (images, images) if among else (images[:30], images[30:])
    others, rows = None if among else references, np.arange(len(queries))
    found = Reranker(references, method)(None if among else queries)(rows, 5)
    if method == "k_reciprocal":
        expected = KReciprocalSearch(queries, others, 20, 6)(rows, 5)
    else:
        searched = references
        if method == "query_expansion":
            queries = expand_queries(queries, others, 10)
        elif method == "database_augmentation":
            searched = augment_database(references, 10)
        else:
            whitening = PCAWhitening(references)
            queries, searched = whitening(queries), whitening(references)
        expected = ExactSearch(searched, "cosine")(queries, 5, rows if among else None)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
