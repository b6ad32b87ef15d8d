import numpy as np
import processes
import pytest
from clusters import around_centres
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from gsp_tf.evaluation import (
    PairDistances,
    classes_for_interval,
    open_set_identification,
    pair_distances,
    verification_metrics,
)


def clusters(seed, count=60, num_classes=9, dim=6, spread=1.2):
    """Embeddings, labels that do not start at 0, and which pairs are positive."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, num_classes, count)
    noise, centres = rng.normal(size=(count, dim)), rng.normal(size=(num_classes, dim))
    embeddings = (noise + spread * centres[labels]).astype(np.float32)
    i, j = np.triu_indices(count, 1)
    return embeddings, 7 - 2 * labels, labels[i] == labels[j]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_equals_scikit_learn(metric):
    embeddings, labels, same = clusters(1)
    distances = pdist(embeddings.astype(float), metric)
    pairs = PairDistances(embeddings, labels, metric)
    assert (pairs.num_positive, pairs.num_negative) == (same.sum(), (~same).sum())
    assert pairs.auc() == pytest.approx(roc_auc_score(same, -distances), abs=2e-5)
    expected = average_precision_score(same, -distances)
    assert pairs.average_precision() == pytest.approx(expected, abs=2e-4)
    false, true, thresholds = roc_curve(same, -distances, drop_intermediate=False)
    for rate in (1e-3, 0.01, 0.1, 0.5, 1.0):
        point = pairs.at_false_match_rate(rate)
        best = np.flatnonzero(false <= rate)[-1]
        assert point.false_match_rate == false[best] and point.true_match_rate == true[best]
        assert point.threshold == pytest.approx(-thresholds[best], rel=1e-4)
    # The curve of scikit-learn, at the distances of ours.
    roc = pairs.roc()
    at = np.searchsorted(-thresholds[1:], roc.distances * (1 + 1e-6), side="right")
    np.testing.assert_allclose(roc.false_match_rates, false[at], atol=2 / len(same))
    np.testing.assert_allclose(roc.true_match_rates, true[at], atol=2 / same.sum())


def points_with_ties(kind, count, dim, rng):
    """Points of which many are equal, or equally far apart."""
    if kind == "copies":
        return rng.normal(size=(5, dim))[rng.integers(0, 5, count)]
    if kind == "codes":
        return rng.choice([-1.0, 1.0], (count, dim))
    return rng.integers(-2, 3, (count, dim)).astype(float)


def metric_of_definition(points, metric):
    """Distances of all pairs in float64 by SciPy; those of cosine are half squares of chords."""
    if metric == "euclidean":
        return pdist(points)
    is_zero = ~points.any(axis=1, keepdims=True)
    lengths = np.linalg.norm(points, axis=1, keepdims=True) + is_zero
    points = np.hstack([points / lengths, is_zero])
    return np.square(np.round(pdist(points), 13)) / 2  # collinear points differ by rounding


@pytest.mark.parametrize("most_exact", [1448, 0], ids=["exact", "steps"])
@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["copies", "codes", "grid"]),
    metric=st.sampled_from(["euclidean", "cosine"]),
    dim=st.sampled_from([1, 2, 7, 64, 512]),
    scale=st.sampled_from([2.0**-100, 1.0, 2.0**60]),
    offset=st.sampled_from([0, 0, 1000]),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 2**16),
)
def test_ties_and_far_origins_equal_scikit_learn(
    most_exact, kind, metric, dim, scale, offset, dtype, seed
):
    rng = np.random.default_rng(seed)
    labels = np.arange(40) % 4
    points = ((points_with_ties(kind, 40, dim, rng) + offset) * scale).astype(dtype)
    i, j = np.triu_indices(40, 1)
    same, distances = labels[i] == labels[j], metric_of_definition(points.astype(float), metric)
    assume(distances.any())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_distances, "_MOST_DISTINCT", most_exact)
        pairs = PairDistances(points, labels, metric)
    # Distances of steps differ by up to 1e-5; those of far points can be nearer than that.
    near = 1e-12 if most_exact else 2e-3
    assert pairs.auc() == pytest.approx(roc_auc_score(same, -distances), abs=near)
    expected = average_precision_score(same, -distances)
    assert pairs.average_precision() == pytest.approx(expected, abs=near)
    for threshold in (0.0, distances.max() * 1e-12):
        point = pairs.at_threshold(threshold)
        copies = (points[i] == points[j]).all(axis=1)
        if metric == "euclidean":
            assert point.true_match_rate == copies[same].mean()
            assert point.false_match_rate == copies[~same].mean()
        assert point.true_match_rate >= copies[same].mean()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("most_exact", [1448, 0])
def test_copies_match_at_every_threshold(monkeypatch, metric, most_exact):
    monkeypatch.setattr(pair_distances, "_MOST_DISTINCT", most_exact)
    rng = np.random.default_rng(0)
    unit = rng.normal(size=(40, 64))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    pairs = PairDistances(np.repeat(unit, 3, axis=0), np.repeat(np.arange(40), 3), metric)
    for threshold in (0.0, 1e-12, 1e-4):
        assert pairs.at_threshold(threshold)[1:] == (0, 1)
    assert pairs.at_threshold(-1e-9)[1:] == (0, 0)
    assert pairs.at_true_match_rate(1).threshold == 0
    assert (pairs.by_class([0.0]).positives == 3).all()


@pytest.mark.parametrize("most_exact", [1448, 0])
def test_pairs_at_the_threshold_match(monkeypatch, most_exact):
    monkeypatch.setattr(pair_distances, "_MOST_DISTINCT", most_exact)
    grid = np.random.default_rng(0).integers(0, 4, (200, 3))
    labels = np.arange(200) % 5
    i, j = np.triu_indices(200, 1)
    distances, same = pdist(grid.astype(float)), labels[i] == labels[j]
    pairs = PairDistances(grid, labels)
    for threshold in np.unique(distances):
        point, matches = pairs.at_threshold(threshold), distances <= threshold
        assert point.false_match_rate == matches[~same].mean()
        assert point.true_match_rate == matches[same].mean()
        assert (pairs.by_class([threshold]).positives.sum()) == (matches & same).sum()


@pytest.mark.parametrize("factor", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_long_vector_does_not_coarsen_the_distances_of_the_others(factor, metric):
    embeddings, labels, same = clusters(0, count=200)
    embeddings[7] *= factor
    distances = pdist(embeddings.astype(float), metric)
    pairs = PairDistances(embeddings, labels, metric)
    assert pairs.auc() == pytest.approx(roc_auc_score(same, -distances), abs=1e-4)
    for rate in (1e-3, 0.1):
        point = pairs.at_false_match_rate(rate)
        false, true = ((distances <= point.threshold)[of].mean() for of in (~same, same))
        assert (point.false_match_rate, point.true_match_rate) == (false, true)
        assert 0.9 * rate < false <= rate


def test_equals_the_formula_of_open_metric_learning():
    # FNMR@FMR: the threshold is the quantile of the negative distances, and positive distances
    # that are not below it are false non-matches.
    embeddings, labels, same = clusters(2)
    distances = pdist(embeddings.astype(float))
    positive, negative = distances[same], distances[~same]
    ranks = np.array([3, 40, 400])
    rates = ranks / (len(negative) - 1)  # the quantiles are distances that occur
    expected = (positive >= np.quantile(negative, rates)[:, None]).mean(axis=1)
    found = verification_metrics(PairDistances(embeddings, labels), rates, num_resamples=1)
    for rate, fnmr in zip(rates, expected, strict=True):
        assert found[f"fnmr_at_fmr_{rate:g}"].value == pytest.approx(fnmr, abs=1e-12)


@pytest.mark.parametrize("num_classes", [3, 9])
def test_equals_the_formulas_of_sentence_transformers(num_classes):
    # Best accuracy and F1: a threshold before all pairs in order of distance, or after one of them.
    embeddings, labels, same = clusters(3, num_classes=num_classes)
    ranked = np.append(False, same[np.argsort(pdist(embeddings.astype(float)))])
    accepted, true = np.arange(len(ranked)), np.cumsum(ranked)
    accuracies = (true + (~same).sum() - (accepted - true)) / len(same)
    f1 = 2 * true / (accepted + same.sum())
    found = verification_metrics(PairDistances(embeddings, labels), [0.1], num_resamples=1)
    assert found["accuracy"].value == pytest.approx(accuracies.max(), abs=1e-12)
    assert found["f1"].value == pytest.approx(f1.max(), abs=1e-12)


def test_eer_lies_where_the_error_rates_cross():
    embeddings, labels, same = clusters(4, count=120)
    distances = pdist(embeddings.astype(float))
    false, true, _ = roc_curve(same, -distances, drop_intermediate=False)
    after = np.flatnonzero(false >= 1 - true)[0]
    eer = PairDistances(embeddings, labels).eer()
    assert false[after - 1] - 1e-9 <= eer <= false[after] + 1e-9
    assert 1 - true[after] - 1e-9 <= eer <= 1 - true[after - 1] + 1e-9
    separate = PairDistances([[0.0], [0.1], [9.0], [9.1]], [0, 0, 1, 1])
    assert separate.eer() == 0 and separate.auc() == 1


def test_ties_of_equal_embeddings():
    pairs = PairDistances(np.ones((6, 3)), [0, 0, 1, 1, 2, 2])
    assert pairs.auc() == 0.5 and pairs.eer() == 0.5
    assert pairs.at_false_match_rate(0.99).true_match_rate == 0
    assert pairs.at_false_match_rate(1).true_match_rate == 1


@pytest.mark.parametrize("num_classes", [2, 30])
def test_counts_do_not_depend_on_blocks_and_groups(monkeypatch, num_classes):
    embeddings, labels, same = clusters(5, count=90, num_classes=num_classes)
    distances = pdist(embeddings.astype(float))
    i, j = np.triu_indices(len(labels), 1)
    whole = PairDistances(embeddings, labels)
    monkeypatch.setattr(pair_distances, "_SIDE", 17)
    monkeypatch.setattr(pair_distances, "_GROUPS", 5)
    pairs = PairDistances(embeddings, labels)
    thresholds = [pairs.at_false_match_rate(rate).threshold for rate in (0.3, 0.02)]
    assert thresholds == [whole.at_false_match_rate(rate).threshold for rate in (0.3, 0.02)]
    found = pairs.by_class(thresholds, by_image=True)
    for t, threshold in enumerate(thresholds):
        matches = distances <= threshold
        for c, label in enumerate(pairs.classes):
            own, touched = labels[i] == label, (labels[i] == label) | (labels[j] == label)
            assert found.positives[c, t] == (matches & same & own).sum()
            assert found.negatives[c, t] == (matches & ~same & touched).sum()
            assert found.num_positive[c] == (same & own).sum()
            assert found.num_negative[c] == (~same & touched).sum()
        for image in range(len(labels)):
            touched = (i == image) | (j == image)
            assert found.image_negatives[image, t] == (matches & ~same & touched).sum()


def test_resampled_counts_are_those_of_drawn_classes():
    embeddings, labels, same = clusters(6, count=40, num_classes=5)
    distances = pdist(embeddings.astype(float))
    i, j = np.triu_indices(len(labels), 1)
    pairs = PairDistances(embeddings, labels)
    threshold = pairs.at_false_match_rate(0.2).threshold
    edges, positives, negatives = pairs.resampled_curves(50, 3, [threshold])
    at = np.searchsorted(edges, threshold)
    copies = np.random.default_rng(3).multinomial(5, np.full(5, 0.2), 50)
    order = np.random.default_rng(0).permutation(5)  # classes are numbered in a random order
    place = np.argsort(order)[np.searchsorted(pairs.classes, labels)]
    first, second = place[i], place[j]
    for b, drawn in enumerate(copies, start=1):
        weights = drawn[first] * np.where(same, 1, drawn[second])
        matches = distances <= threshold
        assert positives[b, at] == weights[same & matches].sum()
        assert negatives[b, at] == weights[~same & matches].sum()
        assert negatives[b, -1] == weights[~same].sum()


def test_intervals_hold_the_truth_as_often_as_they_say():
    # 25 sets of 24 classes each, against the value of many classes.
    rng = np.random.default_rng(0)

    def sample(num_classes):
        # Classes differ in how tight they are, so that pairs of one class depend on each other.
        spread = rng.uniform(0.2, 1.2, num_classes)
        return PairDistances(*around_centres(num_classes, 6, 4, spread, rng))

    truth = sample(400).at_false_match_rate(0.05).true_match_rate
    found = [verification_metrics(sample(24), [0.05], num_resamples=100) for _ in range(25)]
    inside = [f["tar_at_far_0.05"].low <= truth <= f["tar_at_far_0.05"].high for f in found]
    assert 20 <= sum(inside) <= 25
    auc = [f["auc"] for f in found]
    assert all(low <= value <= high for value, low, high in auc)


@pytest.mark.parametrize("most_exact", [1448, 0])
def test_a_rate_at_which_no_pair_may_match_leaves_the_other_metrics(monkeypatch, most_exact):
    monkeypatch.setattr(pair_distances, "_MOST_DISTINCT", most_exact)
    embeddings, labels, _ = clusters(0)
    order = np.argsort(labels, kind="stable")
    embeddings, labels = embeddings[order], labels[order]
    first = np.flatnonzero(np.diff(labels, prepend=0))[:4]
    embeddings[first] = 0.0  # six pairs of equal images of different classes
    pairs = PairDistances(embeddings, labels)
    alone = verification_metrics(pairs, [0.1], num_resamples=100)
    both = verification_metrics(pairs, [1e-3, 0.1], num_resamples=100)
    for name, expected in alone.items():
        np.testing.assert_allclose(both[name], expected, atol=2e-3, err_msg=name)
    assert both["threshold_at_far_0.001"].value < 0 == both["tar_at_far_0.001"].value


@pytest.mark.parametrize(("num_classes", "confidence"), [(2, 0.5), (4, 0.95), (5, 0.99)])
def test_too_few_classes_have_no_interval(num_classes, confidence):
    labels = np.arange(30 * num_classes) % num_classes
    embeddings = np.eye(5)[labels] + np.random.default_rng(0).normal(size=(len(labels), 5))
    found = verification_metrics(PairDistances(embeddings, labels), [0.05], 200, confidence)
    assert all(np.isfinite(of.value) and np.isnan(of[1:]).all() for of in found.values())
    assert classes_for_interval(confidence) == num_classes + 1
    # The reason: a single pair of classes makes up more samples than are beyond an end.
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, num_classes, (100_000, num_classes))
    is_one_pair = (drawn < 2).all(axis=1) & (np.ptp(drawn, axis=1) > 0)
    assert is_one_pair.mean() > (1 - confidence) / 2


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_identification_equals_the_definition(metric):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(30, 5))
    gallery, probes = np.arange(20), rng.integers(0, 30, 300)
    references = centres[gallery] + 0.3 * rng.normal(size=(20, 5))
    queries = centres[probes] + 0.3 * rng.normal(size=(300, 5))
    distances = cdist(queries, references, metric)
    nearest, known = distances.min(axis=1), probes < 20
    right = known & (gallery[distances.argmin(axis=1)] == probes)
    rates = (0.02, 0.1, 1.0)
    given = queries, probes, references, gallery, rates, metric
    found = open_set_identification(*given, num_resamples=300)
    assert found["rank_1"].value == pytest.approx(right.sum() / known.sum(), abs=1e-12)
    for rate in rates:
        allowed = int(rate * (~known).sum())
        # The first false alarm too many.
        limit = np.append(np.sort(nearest[~known]), np.inf)[allowed]
        expected = (right & (nearest < limit)).sum() / known.sum()
        value, low, high = found[f"dir_at_far_{rate:g}"]
        assert value == pytest.approx(expected, abs=1e-12) and low < value < high
        threshold = found[f"threshold_at_far_{rate:g}"].value
        assert threshold == pytest.approx(nearest[nearest < limit].max(), rel=1e-5)


def test_identification_with_too_few_classes_of_a_kind_has_no_interval():
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 10
    queries = rng.normal(size=(100, 3))
    for known in (4, 5, 6):  # and 6, 5, 4 others
        references = rng.normal(size=(known, 3)), np.arange(known)
        found = open_set_identification(queries, labels, *references, [0.1], num_resamples=50)
        assert {bool(np.isnan(of.low)) for of in found.values()} == {known != 5}


FULL_SIZE = """
import resource
import numpy as np
from gsp_tf.evaluation import PairDistances, verification_metrics

rng = np.random.default_rng(0)
labels = rng.integers(0, 30_000, 60_000)
embeddings = rng.normal(size=(60_000, 512)).astype("float32")
embeddings += rng.normal(size=(30_000, 512)).astype("float32")[labels]
found = verification_metrics(PairDistances(embeddings, labels))
assert 0 < found["tar_at_far_0.001"].value <= 1
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20  # KiB
"""


@pytest.mark.evidence
def test_all_pairs_of_60_000_embeddings_fit_in_a_gibibyte():
    processes.run_fresh("-c", FULL_SIZE)
