"""What the studies measure, against definitions."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from gsp_tf.evaluation import retrieval_metrics, zero_shot_prediction
from gsp_tf.layers import GeneralizedSumPooling
from gsp_tf.ops import partial_transport

pytestmark = pytest.mark.evidence
SHAPE = (2, 4, 9)
PARAMETERS = {"transport_ratio": 0.3, "entropy_smoothing": 5.0}
FEATURES = tf.constant(np.random.default_rng(0).normal(size=(3, 2, 2, 5)), tf.float32)
SLOPE = np.arange(1.0, 6.0, dtype="float32")


@pytest.mark.parametrize("transport_ratio", [0.2, 0.25, 0.37])
def test_the_linear_programme_takes_the_cheapest_pixels(study, transport_ratio):
    cost = np.random.default_rng(0).uniform(size=(3, 14))
    plan = study("toy_transport").linear_programme(cost, transport_ratio)
    left, expected = transport_ratio, np.zeros_like(cost)
    for pixel in np.argsort(cost.min(axis=0)):
        expected[cost[:, pixel].argmin(), pixel] = min(left, 1 / 14)
        left -= expected[:, pixel].sum()
    np.testing.assert_allclose(plan, expected, atol=1e-12)


def test_weights_of_the_toy_are_those_of_the_problem(study):
    toy = study("toy_transport")
    rows, _ = toy.study((1,))
    values = {(name, quantity): value for name, _, quantity, value in rows}
    colors = toy.color_map(1).reshape(-1, 3)
    colors /= np.maximum(1, np.linalg.norm(colors, axis=1, keepdims=True))
    cost = np.linalg.norm(np.array([[[1, 0, 0]], [[0, 0, 1]]]) - colors, axis=-1)
    log_s = logsumexp(-5 * cost, axis=0)
    taken = expit(brentq(lambda x: expit(x + log_s).sum() - 20, -50, 50) + log_s)
    on_objects = taken[toy.OBJECTS.ravel()]
    found = values["ε = 5", "share of weight on red and blue"]
    assert found == pytest.approx(on_objects.sum() / 20, rel=1e-4)
    found = values["ε = 5", "n × least weight of red and blue"]
    assert found == pytest.approx(on_objects.min() * 5, rel=1e-4)
    above = [v for (_, quantity), v in values.items() if quantity.endswith("linear programme")]
    assert above[0] == 0 and (np.diff(above[1:]) < 0).all() and above[-1] > 0


def test_the_fixed_point_converges_to_the_gradient_of_the_library(study):
    script = study("backward_cost")
    arguments = [script.costs(SHAPE, 0), *script.upstream(SHAPE, 0)]
    arguments = [tf.constant(array, "float64") for array in arguments]
    ways = (partial(script.automatic, max_iterations=300), partial_transport)
    (gradient, plan), (expected, expected_plan) = (
        script.forward_and_backward(partial(way, **PARAMETERS), SHAPE, "float64")(*arguments)
        for way in ways
    )
    np.testing.assert_allclose(plan, expected_plan, rtol=1e-10)
    np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-12)


class Weighed:
    """A pooling whose weights are a function of the features."""

    def __init__(self, pooling_weights):
        self.pooling_weights = pooling_weights


@pytest.mark.parametrize("kind", ["fixed", "features", "average"])
def test_the_gradient_passes_by_the_features_and_by_their_weights(study, kind):
    fixed = tf.constant(np.tile([[0.5, 0.5], [0.0, 0.0]], (3, 1, 1)), tf.float32)
    pooling = {
        "fixed": Weighed(lambda features: fixed),
        "features": Weighed(lambda features: features[..., 0]),
        "average": GeneralizedSumPooling(4, transport_ratio=1.0),
    }[kind]
    by_weights, direct, average = study("evidence").gradient_norms(
        FEATURES, None, pooling, lambda pooled: pooled * SLOPE, lambda _, x: tf.reduce_sum(x)
    )
    slope = np.linalg.norm(SLOPE)
    assert average == pytest.approx(slope * np.sqrt(3 * 4 * 0.25**2), rel=1e-5)
    if kind == "fixed":
        assert by_weights == 0
        assert direct == pytest.approx(slope * np.sqrt(3 * 2 * 0.5**2), rel=1e-5)
    elif kind == "features":
        assert by_weights == pytest.approx(np.linalg.norm(FEATURES.numpy() @ SLOPE), rel=1e-5)
    else:
        assert by_weights < 1e-4 * direct and direct == pytest.approx(average, rel=1e-4)


def test_effects_are_those_of_a_linear_model(study):
    sensitivity = study("sensitivity")
    slopes = np.arange(1.0, 8.0)
    effects = sensitivity.effects(5.0 + sensitivity.LEVELS @ slopes / 2)
    assert list(effects) == list(sensitivity.FACTORS)
    np.testing.assert_allclose(list(effects.values()), slopes, atol=1e-12)
    high = [
        [option in options for _, option in sensitivity.FACTORS.values()]
        for options in sensitivity.SCREENING.values()
    ]
    np.testing.assert_array_equal(high, sensitivity.LEVELS > 0)


def test_geometry_is_of_all_numbers_of_centres_and_all_pairs_of_classes(study):
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(9, 2)), np.array([4, 7, 4, 7, 4, 7, 9, 9, 9])
    radii, apart = [], []
    for label in (4, 7, 9):
        own = points[labels == label]
        first, second, third = own
        # The second centre is the farthest point from the first one, and three cover all.
        to_first = [np.linalg.norm(point - first) for point in own]
        rest = second if to_first[1] < to_first[2] else third
        chosen = third if rest is second else second
        radii += [max(to_first), min(np.linalg.norm(rest - c) for c in (first, chosen)), 0.0]
        apart += [np.linalg.norm(a - b) for a in own for b in points[labels != label]]
    measured = study("ccp").geometry(points, labels)
    assert measured["covering radius"] == pytest.approx(np.mean(radii))
    assert measured["distance between classes"] == pytest.approx(np.mean(apart))
    own = points[[0, 2]], points[[1, 5]], points[[6]][[0, 0]]
    renamed, proxies = np.searchsorted([4, 7, 9], labels), np.concatenate(own)
    farthest = [
        np.linalg.norm(points[renamed == label][:, None] - kept, axis=-1).min(axis=1).max()
        for label, kept in enumerate(own)
    ]
    found = study("ccp_geometry").covering_radius(points, renamed, proxies)
    assert found == pytest.approx(np.mean(farthest), rel=1e-5)


def test_groups_differ_by_cosines_similarities_and_attention(study):
    rng, labels = np.random.default_rng(0), np.arange(12) % 3
    first = rng.normal(size=(12, 4))
    turned = 3 * first @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    one, other = np.zeros((12, 2, 2)), np.full((12, 2, 2), 0.25)
    one[:, 0, 1] = 1
    numbers = study("evidence").group_numbers
    found = numbers(np.stack([first, turned], 1), np.stack([one, other], -1), labels)
    cosines = np.abs(np.sum(first * turned, 1)) / np.linalg.norm(first, axis=1)
    assert found["cosine"] == pytest.approx(np.mean(cosines / np.linalg.norm(turned, axis=1)))
    assert found["correlation"] == pytest.approx(1) and found["overlap"] == pytest.approx(0.25)
    expected = 100 * retrieval_metrics(first, labels, metric="cosine")["map_at_r"]
    assert found["one group"] == pytest.approx(expected)
    apart = rng.normal(size=(12, 4))
    found = numbers(np.stack([first, apart], 1), np.stack([one, one], -1), labels)
    assert found["correlation"] < 0.5 and found["overlap"] == 1


def test_the_bounds_are_those_of_the_proofs(study):
    script, rng = study("covering_bound"), np.random.default_rng(0)
    labels = np.arange(20) % 2
    points, anchors = rng.normal(size=(20, 2)), rng.normal(size=(2, 2))
    train, other = (points[:12], labels[:12]), (points[12:], labels[12:])

    def pairs(labelled):
        return list(zip(*labelled, strict=True))

    def losses(first, second):
        for x, of_x in pairs(first):
            for y, of_y in pairs(second):
                distance = np.linalg.norm(x - y)
                yield distance if of_x == of_y else max(0.0, 1 - distance)

    def mean(*both):
        return np.mean(list(losses(*both)))

    chosen, everyone = (anchors, np.array([0, 1])), (points, labels)
    found = script.Embedded(train, other).terms(*chosen)
    assert found["gap of 3.2.2"] == pytest.approx(abs(mean(train, train) - mean(train, chosen)))
    assert found["gap of 3.2.1"] == pytest.approx(abs(mean(other, other) - mean(other, chosen)))
    largest = max(losses(everyone, everyone))
    radius = max(np.linalg.norm(x - anchors[label]) for x, label in pairs(train))
    to_train = [
        min(np.linalg.norm(x - y) for y, its in pairs(train) if its == label)
        for x, label in pairs(other)
    ]
    chance, m, n = np.log(20), 2, 12
    sampling = np.sqrt(chance / (2 * n)) + np.sqrt((2 * m * np.log(2) + 2 * chance) / n)
    bound = 3 * radius + max(to_train) + found["training loss"] + largest * sampling
    assert found["bound of 3.2.2"] == pytest.approx(bound, rel=1e-5)
    of_all = max(np.linalg.norm(x - anchors[label]) for x, label in pairs(everyone))
    root = np.sqrt(2 * (found["K / m"] * m * np.log(2) + chance) / m)
    assert found["bound of 3.2.1"] == pytest.approx(of_all + largest * root, rel=1e-5)
    greedy, of_greedy = script.chosen(*train, 6)
    assert sorted(map(tuple, greedy)) == sorted(map(tuple, train[0])) and sum(of_greedy) == 6


def test_neither_sum_of_weights_bounds_a_layer_and_their_geometric_mean_does(study):
    sums, rng = study("covering_bound").layer_sums, np.random.default_rng(0)
    for kernel, stretch in ((np.ones((1, 9)), 3), (np.ones((9, 1)), 3)):
        assert min(sums(kernel)) < stretch == pytest.approx(np.sqrt(np.prod(sums(kernel))))
    kernel = rng.normal(size=(3, 3, 2, 5))
    image = rng.normal(size=(1, 6, 6, 2))
    mapped = keras.ops.conv(image, kernel, padding="same")
    bound = np.sqrt(np.prod(sums(kernel)))
    assert np.linalg.norm(mapped) < bound * np.linalg.norm(image)
    assert sums(kernel)[0] == pytest.approx(np.abs(kernel).sum((0, 1, 2)).max())
    assert sums(kernel)[1] == pytest.approx(np.abs(kernel).sum((0, 1, 3)).max())


def test_predictions_are_means_over_halves_of_the_classes(study):
    """Of ten classes or fewer all are halved."""
    script, rng = study("zero_shot_prototypes"), np.random.default_rng(0)
    labels = np.arange(80) % 4
    attributes, means = rng.dirichlet(np.ones(4), 80), rng.normal(size=(4, 6))
    found = script.predictions(attributes, labels, means, splits=3, seed=0)
    halves = [zero_shot_prediction(attributes, labels, means, 1, seed=split) for split in range(3)]
    assert found == {name: np.mean([half[name] for half in halves]) for name in halves[0]}


def test_intervals_are_those_of_the_paired_t_test(study):
    page = study("evidence_page")
    first, second = np.random.default_rng(0).normal(size=(2, 5))
    mean, half = page.interval(dict(enumerate(first)), dict(enumerate(second)))
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose([mean - half, mean + half], expected)
    assert page.interval({0: 3.0, 1: 5.0}, {1: 4.0, 2: 9.0}) == (1.0, None)
    assert page.interval({0: 1.0}, {1: 1.0}) is None
