"""Thresholds: calibrated to a rate, of conformal sets, and how alike they are between classes."""

import numpy as np
import pytest
from clusters import around_centres
from scipy.spatial.distance import pdist

from gsp_tf.evaluation import PairDistances, calibrate_thresholds, conformal_threshold, opis


def test_thresholds_and_rates_are_those_of_all_pairs():
    embeddings, labels = around_centres(25)
    distances = pdist(embeddings.astype(np.float32).astype(float))
    i, j = np.triu_indices(len(labels), 1)
    same = labels[i] == labels[j]
    found = calibrate_thresholds(PairDistances(embeddings, labels), 0.01, 0.1, base_rate=0.2)
    for threshold in (found.match, found.unknown):
        accepted = distances <= threshold.distance.value
        false, true = accepted[~same].mean(), accepted[same].mean()
        assert threshold.false_match_rate.value == pytest.approx(false, abs=1e-12)
        assert threshold.true_match_rate.value == pytest.approx(true, abs=1e-12)
        for value, low, high in (threshold.distance, threshold.false_match_rate):
            assert low < value < high
    assert 0.0095 < found.match.false_match_rate.value <= 0.01
    assert 0.9 <= found.unknown.true_match_rate.value < 0.903
    true, false = (getattr(found.match, f"{name}_match_rate").value for name in ("true", "false"))
    expected = 0.2 * true / (0.2 * true + 0.8 * false)
    value, low, high = found.precision
    assert value == pytest.approx(expected, abs=1e-12) and low < value < high


def test_other_classes_have_about_the_rate_and_it_lies_in_the_interval():
    # The rate at the threshold, on many classes that were not calibrated on.
    others = PairDistances(*around_centres(400, seed=1))
    samples = (PairDistances(*around_centres(30, seed=seed)) for seed in range(2, 14))
    found = [calibrate_thresholds(sample, 0.02, num_resamples=100) for sample in samples]
    rates = [others.at_threshold(f.match.distance.value).false_match_rate for f in found]
    assert np.mean(rates) == pytest.approx(0.02, rel=0.3)
    ends = [f.match.false_match_rate[1:] for f in found]
    assert sum(low <= rate <= high for (low, high), rate in zip(ends, rates, strict=True)) >= 9
    truth = others.at_false_match_rate(0.02).threshold
    inside = [f.match.distance.low <= truth <= f.match.distance.high for f in found]
    assert sum(inside) >= 9


def test_too_few_classes_have_no_interval():
    two = calibrate_thresholds(PairDistances(*around_centres(2, size=30)), 0.05, base_rate=0.1)
    assert two.match.false_match_rate.value == pytest.approx(0.05, abs=0.01)
    for found in (two.precision, *vars(two.match).values(), *vars(two.unknown).values()):
        assert np.isfinite(found.value) and np.isnan(found[1:]).all()
    assert str(two.precision).endswith(" [unknown]")
    # Classes of one image make false matches, and no true ones.
    embeddings, labels = around_centres(12, size=4)
    labels = np.where(labels > 3, labels + 100 * np.arange(48), labels)
    found = calibrate_thresholds(PairDistances(embeddings, labels), 0.05, 0.4, 0.1, 50).match
    assert found.distance.low < found.distance.high
    assert np.isnan(found.true_match_rate.low)


def test_names_the_classes_over_the_rate():
    embeddings, labels = around_centres(40)
    # Class 3 lies among all others; class 5 is one image in the middle.
    embeddings[labels == 3] *= 0.2
    kept = (labels != 5) | (np.arange(len(labels)) == 40)
    embeddings, labels = embeddings[kept], labels[kept]
    embeddings[labels == 5] = 0
    found = calibrate_thresholds(PairDistances(embeddings, labels), 0.01, num_resamples=20)
    assert found.is_over[3] and not found.is_over[5] and found.class_rates[5] > 0.02
    assert (found.class_rates[found.is_over] > 0.01).all() and found.is_over.sum() < 12


def test_a_conformal_threshold_is_the_order_statistic_of_one_image_of_each_class():
    embeddings, labels = [[0.0], [1.0], [5.0], [8.0], [20.0], [30.0], [99.0]], [0, 0, 1, 1, 2, 2, 3]
    for coverage, expected in ((0.25, 1.0), (0.5, 3.0), (0.75, 10.0)):
        assert conformal_threshold(embeddings, labels, coverage) == expected
    cosine = conformal_threshold([[1, 0], [0, 2], [1, 1], [2, 2]], [0, 0, 1, 1], 0.6, "cosine")
    assert cosine == pytest.approx(1)


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_opis_equals_its_definition(weight):
    embeddings, labels = around_centres(5, 12, 8, [0.3, 0.5, 0.9, 0.4, 1.2])
    embeddings = np.vstack([embeddings, embeddings[:1] + 1])  # a class of one image
    labels = np.append(labels, 9)
    found = opis(PairDistances(embeddings, labels), (0.01, 0.2), weight, num_thresholds=2001)
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=-1)
    others = labels[:, None] != labels
    np.fill_diagonal(distances, np.nan)
    mismatched = np.sort(distances[others])[::2]  # each pair occurs twice
    nearer = (distances < mismatched[int(rate * len(mismatched))] for rate in (0.01, 0.2))
    low, high = (distances[of].max() for of in nearer)
    grid = np.linspace(low, high, 501)
    utilities = []
    for label in range(5):
        own = distances[labels == label]
        positive, negative = (own[:, of] for of in (labels == label, labels != label))
        positive = positive[~np.isnan(positive)]
        sensitivity = (positive[:, None] <= grid).mean(axis=0)
        specificity = (negative.ravel()[:, None] > grid).mean(axis=0)
        whole = weight**2 * specificity + sensitivity
        utilities.append((1 + weight**2) * specificity * sensitivity / whole)
    deviations = np.square(utilities - np.mean(utilities, axis=0))
    expected = np.trapezoid(deviations, grid, axis=1) / (high - low)
    np.testing.assert_array_equal(found.classes, range(5))
    np.testing.assert_allclose(found.contributions, expected, rtol=0.02, atol=1e-4)
    assert found.opis == pytest.approx(expected.mean(), rel=0.01)


def test_an_interval_of_opis_is_that_of_resampled_classes():
    pairs = PairDistances(*around_centres(6, 12, 8, [0.2, 0.3, 0.4, 0.5, 0.7, 0.9]))
    found = opis(pairs, num_thresholds=31)
    scores = []
    for copies in np.random.default_rng(3).multinomial(6, np.full(6, 1 / 6), 40):
        drawn = np.repeat(found.utilities, copies, axis=0)
        deviations = np.square(drawn - drawn.mean(axis=0))
        width = found.thresholds[-1] - found.thresholds[0]
        scores.append(np.trapezoid(deviations, found.thresholds, axis=1).mean() / width * 6 / 5)
    expected = np.quantile(scores, [0.05, 0.95])
    estimate = found.estimate(40, 0.9, seed=3)
    assert estimate.value == found.opis and estimate[1:] == pytest.approx(expected)
    few = opis(PairDistances(*around_centres(4, 12, 8, [0.2, 0.3, 0.4, 0.5]))).estimate()
    assert np.isfinite(few.value) and np.isnan(few[1:]).all()
    of_one = opis(PairDistances([[0.0], [1.0], [3.0], [4.5]], [0, 0, 1, 2]), (0.2, 1.0))
    with np.errstate(all="raise"):
        assert of_one.estimate().value == 0.0
