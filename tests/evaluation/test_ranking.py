import numpy as np
import pytest
from clusters import clusters
from ranked import metrics_of

from gsp_tf.evaluation import (
    RankingMetrics,
    class_wise_map,
    gallery_metrics,
    ranking_metrics,
    retrieval_metrics,
)


@pytest.mark.parametrize("with_sources", [False, True])
def test_equals_the_definitions_of_sentence_transformers(with_sources):
    embeddings, labels = clusters(80)
    sources = np.random.default_rng(1).integers(0, 3, len(labels))
    given = {"query_sources": sources} if with_sources else {}
    found = ranking_metrics(embeddings, labels, at=(1, 3, 20), **given)
    for row in range(len(labels)):
        same = labels == labels[row]
        ignored = set(np.flatnonzero(same & (sources == sources[row]))) if with_sources else {row}
        distances = np.linalg.norm(embeddings - embeddings[row], axis=1)
        hits = np.array([same[i] for i in np.argsort(distances) if i not in ignored])
        of_row = {name: values[row] for name, values in found.values.items()}
        if hits.any():
            assert of_row == pytest.approx(metrics_of(hits, (1, 3, 20)), abs=1e-12)
        else:
            assert np.isnan(list(of_row.values())).all()


def test_sources_of_queries_and_references():
    found = ranking_metrics(
        [[0.0]], [0], [[0.1], [0.2], [0.3]], [0, 1, 0], (1, 2),
        query_sources=[5], reference_sources=[5, 5, 6],
    )  # fmt: skip
    assert found.values["precision_at_1"] == [0] and found.values["mrr_at_2"] == [0.5]


def test_tables_by_class_and_by_group():
    embeddings, labels = clusters(80, seed=4)
    found = ranking_metrics(embeddings, labels, at=(1,))
    values = found.values["map_at_r"]
    by_class = found.by()
    assert list(by_class) == sorted(set(labels.tolist()))
    for label, of_class in by_class.items():
        value, *ends = of_class.means(num_resamples=10)["map_at_r"]
        assert value == pytest.approx(values[labels == label].mean()) and np.isnan(ends).all()
    cameras = np.where(labels < 4, "left", "right")
    by_camera = found.by(cameras.astype(object))
    assert list(by_camera) == ["left", "right"]
    assert by_camera["left"].num_queries == (labels < 4).sum()
    value, low, high = by_camera["left"].means(num_resamples=100)["map_at_r"]
    assert value == pytest.approx(values[labels < 4].mean()) and low < value < high


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_class_means_weigh_every_class_the_same(metric):
    (queries, labels), references = clusters(80, seed=2), clusters(80, seed=3, num_classes=7)
    arrays = queries, labels, *references
    by_class = ranking_metrics(*arrays, at=(1,), metric=metric).class_means()
    expected = class_wise_map(*arrays, metric)
    assert by_class.labels.tolist() == np.flatnonzero(np.isfinite(expected)).tolist() == [*range(7)]
    for label in range(7):
        rows = labels == label
        alone = retrieval_metrics(queries[rows], labels[rows], *references, (), metric)
        assert expected[label] == pytest.approx(alone["map_at_r"], abs=1e-12)
    np.testing.assert_allclose(by_class.values["map_at_r"], expected[np.isfinite(expected)])
    assert by_class.means(10)["map_at_r"].value == pytest.approx(np.nanmean(expected))


def test_any_ranking_has_the_same_metrics():
    embeddings, labels = clusters(80, seed=5)
    sources = np.random.default_rng(1).integers(0, 3, len(labels))
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=-1)
    ranked = np.argsort(distances + np.diag([np.inf] * len(labels)), axis=1)
    for given in ({}, {"query_sources": sources}):
        found = RankingMetrics.of(lambda rows, k: (ranked[rows, :k], None), labels, **given)
        for name, values in ranking_metrics(embeddings, labels, **given).values.items():
            np.testing.assert_allclose(found.values[name], values)
    with pytest.raises(ValueError, match=r"must give \(80, \d+\) integers, .*int64 \(80, 3\)"):
        RankingMetrics.of(lambda rows, k: (ranked[rows, :3], None), labels)


def test_intervals_resample_classes():
    # All queries of a class are alike, so there are as many draws as classes.
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(50), 20)
    values = rng.normal(size=50)
    low, high = RankingMetrics({"a": values[labels]}, labels).means(4000)["a"][1:]
    width = 2 * 1.96 * values.std() / np.sqrt(50)
    assert high - low == pytest.approx(width, rel=0.06)


def assert_same(found, expected):
    for name, values in expected.values.items():
        np.testing.assert_allclose(found.values[name], values, err_msg=name)


@pytest.mark.parametrize("with_sources", [False, True])
def test_each_gallery_has_the_metrics_of_a_search_in_it_alone(with_sources):
    queries, labels = clusters(20, num_classes=6)
    references, theirs = clusters(60, seed=1, num_classes=6)
    shops = np.array(["left", "right"])[np.arange(60) % 2]
    theirs[shops == "left"] %= 4  # two classes are in one gallery alone
    sources = np.arange(20) % 3, np.arange(60) % 3
    given = {}
    if with_sources:
        given = {"query_sources": sources[0], "reference_sources": sources[1]}
    found = gallery_metrics(queries, labels, shops, references, theirs, at=(1, 4), **given)
    assert list(found) == ["left", "right"]
    assert found["left"].num_queries < found["right"].num_queries
    for shop, of_shop in found.items():
        chosen = shops == shop
        if with_sources:
            given["reference_sources"] = sources[1][chosen]
        searched = references[chosen], theirs[chosen]
        assert_same(of_shop, ranking_metrics(queries, labels, *searched, (1, 4), **given))


@pytest.mark.parametrize("with_sources", [False, True])
def test_images_ignore_themselves_in_their_own_gallery(with_sources):
    embeddings, labels = clusters(40, seed=2, num_classes=4)
    years = np.arange(40) % 3
    cameras = np.random.default_rng(3).integers(0, 4, 40)
    given = {"query_sources": cameras} if with_sources else {}
    found = gallery_metrics(embeddings, labels, years, at=(1, 30), **given)
    for year, of_year in found.items():
        there = np.flatnonzero(years == year)
        distances = np.linalg.norm(embeddings[:, None] - embeddings[there], axis=-1)
        for row in range(40):
            ignored = there == row
            if with_sources:
                ignored = (labels[there] == labels[row]) & (cameras[there] == cameras[row])
            order = np.argsort(distances[row])
            hits = (labels[there] == labels[row])[order[~ignored[order]]]
            expected = hits[: hits.sum()].mean() if hits.any() else np.nan
            np.testing.assert_allclose(of_year.values["r_precision"][row], expected)


def test_a_name_may_be_nan():
    searched = clusters(60, num_classes=6)
    number = np.arange(60) % 2
    found = gallery_metrics(*searched, np.array([7.5, np.nan])[number])
    expected = gallery_metrics(*searched, number)
    assert str(list(found)) == "[7.5, nan]"
    for ours, of_number in zip(found.values(), expected.values(), strict=True):
        assert_same(ours, of_number)


def test_galleries_without_positives_are_left_out():
    queries, labels = clusters(10, num_classes=6)
    galleries = [7, 7, 8, 8, 9, 9]  # 8 has no positive, and 9 no other class
    theirs = [labels[0], 99, 98, 99, labels[0], labels[0]]
    assert list(gallery_metrics(queries, labels, galleries, queries[:6], theirs)) == [7]
