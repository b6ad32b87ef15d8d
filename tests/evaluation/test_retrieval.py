import tracemalloc

import numpy as np
import pytest
from clusters import around_centres
from hypothesis import given, settings
from hypothesis import strategies as st
from ranked import metrics_of
from scipy.spatial.distance import cdist

from gsp_tf.evaluation import _positives, grouped_recall, retrieval_metrics


def brute_force(queries, query_labels, references, reference_labels, recall_at, metric, own):
    """The definitions, one query at a time, in float64."""
    found, distances = [], cdist(queries, references, metric)
    for row, label in enumerate(query_labels):
        order = [i for i in np.argsort(distances[row]) if not (own and i == row)]
        hits = reference_labels[order] == label
        if hits.any():
            found.append(metrics_of(hits, recall_at))
    names = ["precision_at_1", "r_precision", "map_at_r", *(f"recall_at_{k}" for k in recall_at)]
    means = {name: np.mean([of[name] for of in found]) for name in names}
    return means | {"num_queries": len(found), "num_skipped": len(queries) - len(found)}


@pytest.mark.parametrize("case", ["m0", "m1"])
def test_equals_original_code(oracle, case):
    arrays = oracle("retrieval_original")
    metrics = retrieval_metrics(arrays[f"{case}_x"], arrays[f"{case}_y"])
    assert metrics["map_at_r"] == pytest.approx(arrays[f"{case}_map_at_r"], abs=1e-5)
    assert metrics["precision_at_1"] == pytest.approx(arrays[f"{case}_p_at_1"], abs=1e-5)
    assert metrics["r_precision"] == pytest.approx(arrays[f"{case}_p_at_r"], abs=1e-5)


@pytest.mark.parametrize("case", ["m0", "m1", "m2"])
def test_equals_pytorch_metric_learning(oracle, case):
    arrays = oracle("retrieval_pml")
    names = ["queries", "query_labels", "references", "reference_labels"]
    given = [arrays[f"{case}_{name}"] for name in names if f"{case}_{name}" in arrays]
    metrics = retrieval_metrics(*given)
    for name in ("precision_at_1", "r_precision"):
        assert metrics[name] == pytest.approx(arrays[f"{case}_{name}"], abs=1e-9)
    expected = arrays[f"{case}_mean_average_precision_at_r"]
    assert metrics["map_at_r"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.equation(
    "thesis",
    "§ 1.2",
    "evaluation.retrieval_metrics",
    "P(i) is the precision among the first i, printed P@R",
)
@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(3, 40),
    classes=st.integers(1, 8),
    dim=st.integers(1, 6),
    metric=st.sampled_from(["euclidean", "cosine"]),
    gallery=st.booleans(),
)
def test_equals_brute_force(seed, count, classes, dim, metric, gallery):
    rng = np.random.default_rng(seed)
    # In one dimension every cosine similarity is 1 or -1: nothing but ties.
    dim += metric == "cosine"
    references = rng.normal(size=(count, dim)).astype(np.float32)
    reference_labels = np.r_[0, 0, 1, rng.integers(0, classes, count)][:count]
    queries, query_labels = references, reference_labels
    if gallery:
        queries = rng.normal(size=(12, dim)).astype(np.float32)
        query_labels = np.r_[0, rng.integers(0, classes + 2, 11)]
    recall_at = (1, 3, 100)
    extra = (references, reference_labels) if gallery else ()
    metrics = retrieval_metrics(queries, query_labels, *extra, recall_at=recall_at, metric=metric)
    expected = brute_force(
        queries.astype(np.float64),
        query_labels,
        references.astype(np.float64),
        reference_labels,
        recall_at,
        metric,
        own=not gallery,
    )
    assert metrics == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("entries", [1, 64, 1000])
def test_blocks_change_nothing(monkeypatch, entries):
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(101, 5)), rng.integers(0, 9, 101)
    whole = retrieval_metrics(embeddings, labels)
    monkeypatch.setattr(_positives, "_BLOCK_ENTRIES", entries)
    assert retrieval_metrics(embeddings, labels) == pytest.approx(whole, abs=1e-12)


def test_memory_stays_bounded(monkeypatch):
    # A class of 1999: R = 1998, so that all retrieved indices at once would take 32 MB.
    monkeypatch.setattr(_positives, "_BLOCK_ENTRIES", 1 << 16)
    embeddings = np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32)
    tracemalloc.start()
    retrieval_metrics(embeddings, np.r_[np.zeros(1999, int), 1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_recall_in_groups_does_not_depend_on_the_number_of_classes():
    embeddings, labels = around_centres(90, 10, spread=0.8)
    plain, grouped = [], []
    for of in (labels < 30, labels >= 0):
        plain.append(retrieval_metrics(embeddings[of], labels[of])["recall_at_1"])
        found = grouped_recall(embeddings[of], labels[of], 10, num_resamples=20)
        grouped.append(found["grouped_recall_at_1"].value)
    assert plain[0] - plain[1] > 0.1 > 0.05 > abs(grouped[0] - grouped[1])


def test_recall_in_groups_is_the_mean_over_groups_with_positives():
    embeddings, labels = around_centres(4, 10, spread=0.8)
    found = grouped_recall(embeddings, labels, 4, recall_at=(1, 3), num_resamples=5)
    expected = retrieval_metrics(embeddings, labels, recall_at=(1, 3))
    for k in (1, 3):
        assert found[f"grouped_recall_at_{k}"].value == pytest.approx(expected[f"recall_at_{k}"])
    single = labels.copy()
    single[labels > 0] = np.arange(10, 40)  # one class of ten images, and 30 of one
    alone = grouped_recall(embeddings, single, 2, num_resamples=5)["grouped_recall_at_1"]
    assert alone.value == 1
