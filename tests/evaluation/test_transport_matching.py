import numpy as np
import pytest
from clusters import clusters

from gsp_tf.evaluation import (
    TokenSets,
    match_tokens,
    rerank_by_transport,
    reranking_metrics,
    retrieval_metrics,
    transport_matching,
)
from gsp_tf.ops import partial_set_transport

RNG = np.random.default_rng(0)


def images_with_background(count, k=5, common=3, dim=16):
    """Token sets of five classes: tokens of the class, and a background of the image's own."""
    labels = np.arange(count) % 5
    shared = np.random.default_rng(1).normal(size=(5, common, dim))
    features = RNG.normal(size=(count, k, dim))
    features[:, :common] = shared[labels] + 0.3 * features[:, :common]
    order = RNG.permuted(np.tile(np.arange(k), (count, 1)), axis=1)
    features = np.take_along_axis(features, order[..., None], axis=1)
    return features, labels


def test_packs_the_heaviest_features_in_bytes():
    features, weights = RNG.normal(size=(4, 9, 5)), RNG.uniform(size=(4, 9))
    sets = TokenSets.pack(features, weights, k=3)
    assert [a.dtype.name for a in sets] == ["int8", "uint8", "uint16"]
    assert sets.bytes_per_image == 3 * 5 + 3 + 2 * 3
    for image in range(4):
        places = np.argsort(-weights[image])[:3]
        np.testing.assert_array_equal(sets.places[image], places)
        kept = features[image, places]
        cosines = (kept * sets.tokens[image]).sum(-1) / np.linalg.norm(kept, axis=1)
        assert (cosines / np.linalg.norm(sets.tokens[image], axis=1) > 0.9999).all()
        shares = weights[image, places] / weights[image].max()
        np.testing.assert_allclose(sets.weights[image] / 255, shares, atol=0.002)


def test_matches_as_the_operator_does(monkeypatch):
    monkeypatch.setattr(transport_matching, "_BLOCK_PAIRS", 3)
    features, _ = images_with_background(10)
    sets = TokenSets.pack(features, RNG.uniform(0.2, 1, (10, 5)), k=5)
    distances, plans = match_tokens(sets.take(slice(5)), sets.take(slice(5, 10)), 0.4, 20.0)
    tokens = sets.tokens / np.linalg.norm(sets.tokens.astype(float), axis=2, keepdims=True)
    weights = sets.weights / sets.weights.sum(1, keepdims=True)
    cost = 1 - tokens[:5] @ tokens[5:].swapaxes(1, 2)
    expected = np.asarray(partial_set_transport(cost, 0.4, 20.0, weights[:5], weights[5:])[0])
    np.testing.assert_allclose(plans, expected, atol=2e-5)
    np.testing.assert_allclose(distances, (cost * expected).sum((1, 2)) / 0.4, atol=1e-4)


def test_finds_images_that_share_tokens_among_the_first_results():
    features, labels = images_with_background(40)
    sets = TokenSets.pack(features, np.ones((40, 5)), k=5)
    everything = np.array([np.delete(np.arange(40), i) for i in range(8)])
    indices, distances = rerank_by_transport(everything, sets.take(slice(8)), sets, depth=39)
    hits = labels[indices[:, :7]] == labels[:8, None]
    assert hits.mean() > 0.95 and (np.diff(distances) >= 0).all()
    few, of_few = rerank_by_transport(everything, sets.take(slice(8)), sets, depth=10)
    np.testing.assert_array_equal(few[:, 10:], everything[:, 10:])
    assert of_few.shape == (8, 10) and (np.sort(few[:, :10]) == everything[:, :10]).all()
    given = np.tile(np.arange(39.0), (8, 1))
    kept, _ = rerank_by_transport(everything, sets.take(slice(8)), sets, distances=given, weight=1)
    np.testing.assert_array_equal(kept, everything)


def test_every_way_has_metrics_time_and_bytes():
    (queries, labels), (references, theirs) = clusters(12), clusters(60, seed=1)
    sets = TokenSets.pack(queries[:, None], np.ones((12, 1)), k=1)
    gallery = TokenSets.pack(references[:, None], np.ones((60, 1)), k=1)
    methods = ["transport", "whitening", "k_reciprocal", "query_expansion", "database_augmentation"]
    searched = queries, labels, references, theirs
    given = {"query_tokens": sets, "reference_tokens": gallery}
    found = reranking_metrics(*searched, methods, at=(1,), **given)
    assert list(found) == ["search", "transport", "whitening_8", *methods[2:]]
    assert all(of.seconds > 0 for of in found.values())
    assert found["transport"].bytes_per_image == 32 + 8 + 1 + 2
    means = {name: of.metrics.means()["map_at_r"] for name, of in found.items()}
    assert all(low <= value <= high for value, low, high in means.values())
    # A single token that is the embedding gives the order of cosine distances.
    assert means["transport"].value == pytest.approx(means["search"].value, abs=0.02)
    plain = retrieval_metrics(*searched)["map_at_r"]
    assert means["search"].value == pytest.approx(plain)
    alone = reranking_metrics(queries, labels, methods=methods[2:])
    assert all(of.metrics.num_queries <= 12 for of in alone.values())


def test_transport_re_orders_a_hundred_results_whatever_the_metrics_need():
    features, labels = images_with_background(40)
    sets = TokenSets.pack(features, np.ones((40, 5)), k=5)
    far = RNG.normal(size=(40, 8))  # embeddings that say nothing
    found = reranking_metrics(far, labels, methods=["transport"], at=(1,), query_tokens=sets)
    assert found["transport"].metrics.means()["precision_at_1"].value > 0.9
