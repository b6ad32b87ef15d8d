import numpy as np
import pytest

from gsp_tf.evaluation import PairDistances, opis


def classes_of(spreads, seed=0, size=12, dim=8):
    rng = np.random.default_rng(seed)
    labels = np.arange(len(spreads) * size) // size
    noise = rng.normal(size=(len(labels), dim)) * np.asarray(spreads)[labels, None]
    return rng.normal(size=(len(spreads), dim))[labels] + noise, labels


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_equals_the_definition(weight):
    embeddings, labels = classes_of([0.3, 0.5, 0.9, 0.4, 1.2])
    embeddings = np.vstack([embeddings, embeddings[:1] + 1])  # a class of one image
    labels = np.append(labels, 9)
    found = opis(PairDistances(embeddings, labels), (0.01, 0.2), weight, num_thresholds=2001)
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=-1)
    others = labels[:, None] != labels
    np.fill_diagonal(distances, np.nan)
    low, high = np.quantile(distances[others], [0.01, 0.2], method="lower")
    grid = np.linspace(low, high, 501)
    utilities = []
    for label in range(5):
        own = distances[labels == label]
        positive, negative = (own[:, of] for of in (labels == label, labels != label))
        positive = positive[~np.isnan(positive)]
        sensitivity = (positive[:, None] <= grid).mean(axis=0)
        specificity = (negative.ravel()[:, None] > grid).mean(axis=0)
        utilities.append(
            (1 + weight**2) * specificity * sensitivity / (weight**2 * specificity + sensitivity)
        )
    deviations = np.square(utilities - np.mean(utilities, axis=0))
    expected = np.trapezoid(deviations, grid, axis=1) / (high - low)
    np.testing.assert_array_equal(found.classes, range(5))
    np.testing.assert_allclose(found.contributions, expected, rtol=0.02, atol=1e-4)
    assert found.opis == pytest.approx(expected.mean(), rel=0.01)


def test_an_interval_is_that_of_resampled_classes():
    found = opis(PairDistances(*classes_of([0.2, 0.3, 0.4, 0.5, 0.7, 0.9])), num_thresholds=31)
    scores = []
    for copies in np.random.default_rng(3).multinomial(6, np.full(6, 1 / 6), 40):
        drawn = np.repeat(found.utilities, copies, axis=0)
        deviations = np.square(drawn - drawn.mean(axis=0))
        width = found.thresholds[-1] - found.thresholds[0]
        scores.append(np.trapezoid(deviations, found.thresholds, axis=1).mean() / width * 6 / 5)
    expected = np.quantile(scores, [0.05, 0.95])
    estimate = found.estimate(40, 0.9, seed=3)
    assert estimate.value == found.opis and estimate[1:] == pytest.approx(expected)
    few = opis(PairDistances(*classes_of([0.2, 0.3, 0.4, 0.5]))).estimate()
    assert np.isfinite(few.value) and np.isnan(few[1:]).all()
    of_one = opis(PairDistances([[0.0], [1.0], [3.0], [4.5]], [0, 0, 1, 2]), (0.2, 1.0))
    with np.errstate(all="raise"):
        assert of_one.estimate().value == 0.0
    with pytest.raises(ValueError, match="num_resamples must be at least 1"):
        found.estimate(0)
