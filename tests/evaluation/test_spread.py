import numpy as np
import pytest

from gsp_tf.evaluation import embedding_spread


def test_equals_the_definitions():
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(9, 4)), np.arange(9) % 3
    found = embedding_spread(embeddings, labels)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    pairs = [(i, j) for i in range(9) for j in range(i)]
    squared = {(i, j): np.sum((unit[i] - unit[j]) ** 2) for i, j in pairs}
    positives = [squared[p] for p in pairs if labels[p[0]] == labels[p[1]]]
    cosines = [unit[i] @ unit[j] for i, j in pairs if labels[i] != labels[j]]
    singular = np.linalg.svd(unit, compute_uv=False)
    share = singular / singular.sum()
    expected = {
        "similarity": np.mean(cosines),
        "effective_rank": np.exp(-np.sum(share * np.log(share))),
        "alignment": np.mean(positives),
        "uniformity": np.log(np.mean([np.exp(-2 * d) for d in squared.values()])),
    }
    assert found == pytest.approx(expected, rel=1e-6)


def test_collapsed_and_spread_embeddings():
    collapsed = embedding_spread(np.ones((6, 3)), np.arange(6) // 2)
    assert collapsed == pytest.approx(
        {"similarity": 1, "effective_rank": 1, "alignment": 0, "uniformity": 0}, abs=1e-5
    )
    assert embedding_spread(np.eye(5), np.arange(5))["effective_rank"] == pytest.approx(5)
    assert np.isnan(embedding_spread(np.eye(5), np.arange(5))["alignment"])
