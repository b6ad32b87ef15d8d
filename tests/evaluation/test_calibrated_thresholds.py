import numpy as np
import pytest
from clusters import around_centres
from scipy.spatial.distance import pdist

from gsp_tf.evaluation import PairDistances, calibrate_thresholds


def test_thresholds_and_rates():
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
    found = [
        calibrate_thresholds(PairDistances(*around_centres(30, seed=seed)), 0.02, num_resamples=100)
        for seed in range(2, 14)
    ]
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
