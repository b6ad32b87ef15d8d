import numpy as np
import pytest

from gsp_tf.evaluation import gallery_metrics, ranking_metrics


def samples(seed, count=60, num_classes=6):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, count)
    return np.eye(num_classes)[labels] + rng.normal(size=(count, num_classes)), labels


def assert_same(found, expected):
    for name, values in expected.values.items():
        np.testing.assert_allclose(found.values[name], values, err_msg=name)


@pytest.mark.parametrize("with_sources", [False, True])
def test_each_gallery_has_the_metrics_of_a_search_in_it_alone(with_sources):
    (queries, labels), (references, theirs) = samples(0, 20), samples(1)
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
        assert_same(
            of_shop,
            ranking_metrics(queries, labels, references[chosen], theirs[chosen], (1, 4), **given),
        )


@pytest.mark.parametrize("with_sources", [False, True])
def test_images_ignore_themselves_in_their_own_gallery(with_sources):
    embeddings, labels = samples(2, 40, 4)
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


@pytest.mark.parametrize("names", [["left", "right"], [7.5, np.nan]])
def test_names_of_any_type_are_those_of_the_galleries(names):
    queries, labels = samples(0, 20)
    references, theirs = samples(1)
    number = np.arange(60) % 2
    found = gallery_metrics(
        queries,
        labels,
        np.array(names, object if "left" in names else float)[number],
        references,
        theirs,
    )
    expected = gallery_metrics(queries, labels, number, references, theirs)
    assert list(map(str, found)) == list(map(str, names))
    for ours, of_number in zip(found.values(), expected.values(), strict=True):
        assert_same(ours, of_number)


@pytest.mark.parametrize("count", [59, 61])
def test_sources_of_other_references_are_refused(count):
    (queries, labels), (references, theirs) = samples(0, 20), samples(1)
    sources = {"query_sources": labels, "reference_sources": np.zeros(count, int)}
    with pytest.raises(ValueError, match=rf"reference_sources .* \(60,\) .*received \({count},\)"):
        gallery_metrics(queries, labels, np.arange(60) % 2, references, theirs, **sources)


def test_galleries_without_positives_are_left_out_or_refused():
    queries, labels = samples(0, 10)
    galleries = [7, 7, 8, 8, 9, 9]  # 8 has no positive, and 9 no other class
    theirs = [labels[0], 99, 98, 99, labels[0], labels[0]]
    assert list(gallery_metrics(queries, labels, galleries, queries[:6], theirs)) == [7]
    with pytest.raises(ValueError, match="None of the 10 queries has a positive"):
        gallery_metrics(queries, labels, [7, 8], queries[:2], [98, 99])
    with pytest.raises(ValueError, match=r"one per reference, \(2,\); received \(3,\)"):
        gallery_metrics(queries, labels, [7, 8, 9], queries[:2], [1, 2])
    with pytest.raises(ValueError, match="received only references"):
        gallery_metrics(queries, labels, [7, 8], queries[:2])
