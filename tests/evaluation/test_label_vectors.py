"""Retrieval of samples with several labels each."""

import numpy as np
import pytest
from ranked import metrics_of
from sklearn.metrics import ndcg_score

from gsp_tf.evaluation import RankingMetrics, ranking_metrics, retrieval_metrics


def samples(seed, count, columns=7):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 4)), rng.random((count, columns)) < 0.25


def related(x, y, relation):
    shared = x.astype(int) @ y.T
    if relation == "any":
        return (shared > 0).astype(float)
    sizes = x.sum(1)[:, None], y.sum(1)[None, :]
    whole = sizes[0] + sizes[1] - shared if relation == "jaccard" else np.sqrt(sizes[0] * sizes[1])
    return shared / np.maximum(whole, 1e-9)


@pytest.mark.parametrize("among_themselves", [True, False])
@pytest.mark.parametrize(
    ("relation", "threshold"), [("any", 0.0), ("jaccard", 0.0), ("cosine", 0.4)]
)
def test_equals_the_definitions(relation, threshold, among_themselves, monkeypatch):
    monkeypatch.setattr("gsp_tf.evaluation._positives._RELATED_ENTRIES", 150)  # several blocks
    x, tags = samples(0, 40)
    y, of_references = (x, tags) if among_themselves else samples(1, 30)
    others = () if among_themselves else (y, of_references)
    gains = related(tags, of_references, relation)
    gains[gains <= threshold] = 0.0
    distances = np.linalg.norm(x[:, None] - y[None], axis=2)
    if among_themselves:
        np.fill_diagonal(distances, np.inf)
        np.fill_diagonal(gains, 0.0)
    order = np.argsort(distances, axis=1)[:, : len(y) - among_themselves]
    expected = {}
    for row, ranks in enumerate(order):
        found = gains[row, ranks]
        if found.any():
            values = metrics_of(found, (1, 5, 100))
            for k in (5, 100):
                values[f"ndcg_at_{k}"] = ndcg_score([found], [-np.arange(len(found))], k=k)
            for name, value in values.items():
                expected.setdefault(name, {})[row] = value
    arguments = {"relation": relation, "relation_threshold": threshold}
    metrics = ranking_metrics(x, tags, *others, at=(1, 5, 100), **arguments)
    assert 20 < metrics.num_queries < 40
    for name, values in expected.items():
        assert np.flatnonzero(metrics.is_used).tolist() == list(values)
        found = metrics.values[name][metrics.is_used]
        np.testing.assert_allclose(found, list(values.values()), rtol=1e-6, err_msg=name)
    means = retrieval_metrics(x, tags, *others, recall_at=(1, 5), **arguments)
    assert means["num_skipped"] == 40 - metrics.num_queries
    for name in ("precision_at_1", "r_precision", "map_at_r", "recall_at_5"):
        assert means[name] == pytest.approx(np.mean(list(expected[name].values())))
    ranked = RankingMetrics.of(
        lambda rows, k: (order[rows, :k], None),
        tags,
        None if among_themselves else of_references,
        at=(1, 5, 100),
        **arguments,
    )
    np.testing.assert_array_equal(ranked.values["ndcg_at_5"], metrics.values["ndcg_at_5"])


@pytest.mark.parametrize("relation", ["any", "jaccard", "cosine"])
def test_one_label_each_is_a_class(relation):
    rng = np.random.default_rng(3)
    x, classes = rng.normal(size=(50, 4)), rng.integers(0, 8, 50)
    expected = ranking_metrics(x, classes, at=(1, 4))
    found = ranking_metrics(x, np.eye(8)[classes], at=(1, 4), relation=relation)
    assert list(found.values) == list(expected.values)
    for name, values in expected.values.items():
        np.testing.assert_allclose(found.values[name], values, rtol=1e-12, err_msg=name)
    # The same resampled classes, in the order of their one-hot vectors.
    assert found.means(20)["map_at_r"].value == expected.means(20)["map_at_r"].value


def test_a_function_relates_any_labels():
    heights = np.array([1.60, 1.62, 1.90, 1.93])

    def near(x, y):
        return abs(x[:, None] - y[None, :]) < 0.1

    found = retrieval_metrics([[0.0], [1.0], [1.4], [9.0]], heights, recall_at=(1,), relation=near)
    assert found["precision_at_1"] == 0.5 and found["num_queries"] == 4
