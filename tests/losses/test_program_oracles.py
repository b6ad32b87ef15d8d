"""Losses of papers and of TensorFlow Similarity, against the programs of their authors."""

import itertools
from functools import partial

import keras
import numpy as np
import pml_batches
import pytest
from gradients import differentiated, value_and_gradients
from loss_examples import for_any_size, with_weights

from gsp_tf import losses

IN_ORDER = np.repeat(np.arange(3), 4)
same = partial(pml_batches.same, least=1e-3)


def of_equal_rows(points):
    """Adds up the gradients of equal rows: libraries share them out in their own ways."""
    return np.all(points[:, None] == points, axis=2).astype("float64")


def batch(case, name):
    """Labels, embeddings and proxies."""
    prefix = "" if name == "plain" else f"{name}/"
    return [case[f"{prefix}{key}"] for key in ("labels", "embeddings", "proxies")]


@pytest.mark.parametrize(
    ("key", "name", "num_classes", "arguments"),
    [
        ("recall_at_k", "plain", 3, ((1, 2, 4),)),
        ("soft", "plain", 3, ((2,), 0.2, 3.0)),
        ("recall_tied", "tied", 3, ((1, 2, 4), 0.1, 0.5)),
        ("recall_pairs", "tied", 6, ((1, 3, 8), 0.05, 2.0)),
        ("recall_one_class", "tied", 1, ((1, 5), 0.1)),
        ("recall_equal", "equal", 3, ((1, 2, 4),)),
    ],
)
def test_recall_at_k(oracle, key, name, num_classes, arguments):
    case, labels = oracle("losses_programs"), np.repeat(np.arange(num_classes), 12 // num_classes)
    _, embeddings, _ = batch(case, name)
    loss = losses.RecallAtKLoss(*arguments, counts_query=True)
    value, gradient = value_and_gradients(loss, labels, embeddings)
    same(value, case[f"{key}/value"], 1e-5)
    same(gradient, case[f"{key}/gradient"], 1e-4)
    # Without the query, which comes first in its own ranking, the rank is smaller by about 1.
    assert losses.RecallAtKLoss(*arguments)(labels, embeddings) < value - 0.01


@pytest.mark.parametrize("k", [1, 3])
def test_surrogate_precision_is_that_of_open_metric_learning(k):
    """Its formula: the anchor is a positive of its own, and k is raised by 1."""
    embeddings = np.random.default_rng(0).normal(size=(12, 5))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=2)
    ranks = np.sum(1 / (1 + np.exp((distances[:, None] - distances[..., None]) / 0.1)), axis=2)
    same_class = IN_ORDER[:, None] == IN_ORDER
    found = np.sum(same_class / (1 + np.exp((ranks - k - 1) / 0.7)), axis=1)
    expected = 1 - np.mean(found / np.minimum(same_class.sum(axis=1), k + 1))
    loss = losses.SurrogatePrecisionLoss(k, 0.1, 0.7, counts_query=True)
    assert float(loss(IN_ORDER, embeddings)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("key", "name", "factors", "arguments"),
    [
        ("ada_face", "plain", (10.0, 30.0), {"scale": 16.0, "momentum": 0.9}),
        ("ada_face_sharp", "tied", (20.0, 70.0), {
            "margin": 0.25, "concentration": 1.5, "scale": 32.0, "momentum": 0.5
        }),
        ("ada_face_equal", "equal", (10.0,), {"margin": 0.5, "scale": 8.0, "momentum": 1.0}),
        ("ada_face_on_proxies", "on_proxies", (10.0,), {
            "concentration": 0.8, "scale": 4.0, "momentum": 0.9
        }),
    ],
)  # fmt: skip
def test_ada_face(oracle, key, name, factors, arguments):
    case = oracle("losses_programs")
    labels, embeddings, proxies = batch(case, name)
    loss = with_weights(losses.AdaFaceLoss(6, **arguments, dtype="float64"), proxies)
    for number, factor in enumerate(factors):
        value, *gradients = value_and_gradients(loss, labels, factor * embeddings)
        same(value, case[f"{key}_{number}/value"], 1e-5)
        same(gradients[0], case[f"{key}_{number}/gradient"], 1e-4)
        same(gradients[1], case[f"{key}_{number}/weights_gradient"], 1e-4)
    if len(factors) == 1:
        mean = np.mean(np.clip(np.linalg.norm(factors[0] * embeddings, axis=1), 0.001, 100.0))
        expected = arguments["momentum"] * mean + (1 - arguments["momentum"]) * 20.0
        assert float(loss.norm_mean) == pytest.approx(expected, rel=1e-14)
    before = float(loss.norm_mean)
    value_and_gradients(loss, labels, embeddings, training=False)
    assert float(loss.norm_mean) == before


@pytest.mark.parametrize(
    ("key", "name", "arguments"),
    [
        ("batch_proxy", "plain", ()),
        ("all_proxy", "plain", ()),
        ("pair", "plain", ()),
        ("batch_proxy_tied", "tied", (0.5, 0.1)),  # their gam1 divides epsilon
        ("all_proxy_tied", "tied", (0.3, 0.05)),
        ("pair_tied", "tied", (0.2, 0.5)),
        ("batch_proxy_equal", "equal", ()),
        ("pair_equal", "equal", (2.0,)),
        ("pair_zeros", "zeros", ()),
    ],
)
def test_anti_collapse(oracle, key, name, arguments):
    case = oracle("losses_programs")
    labels, embeddings, proxies = batch(case, name)
    kind = key.removesuffix(f"_{name}")
    source = {"batch_proxy": "batch_proxies", "all_proxy": "all_proxies", "pair": "samples"}[kind]

    def made(weight):
        inner = losses.NormalizedSoftmaxLoss(6, 1.0, dtype="float64")
        loss = losses.AntiCollapseLoss(inner, weight, *arguments, source=source, dtype="float64")
        return with_weights(loss, proxies)

    found = [value_and_gradients(made(weight), labels, embeddings) for weight in (1.0, 0.0)]
    value, *gradients = (there - back for there, back in zip(*found, strict=True))
    same(value, case[f"{key}/value"], 1e-5)
    same(gradients[kind != "pair"], case[f"{key}/gradient"], 1e-4)


@pytest.mark.parametrize(
    ("key", "name", "arguments"),
    [
        ("hier", "plain", ()),
        ("hier_curved", "plain", (0.4, 0.5, 0.5, 1.5)),
        ("hier_flat", "plain", (0.2, 0.3, 0.0)),
        ("hier_tied", "tied", (0.1, 0.2)),
        ("hier_equal", "equal", (0.3, 0.1, 0.3, 1.0)),
        ("hier_zeros", "zeros", ()),
    ],
)
def test_hier(oracle, key, name, arguments):
    case = oracle("losses_programs")
    _, *points = batch(case, name)
    loss = with_weights(losses.HIERLoss(6, *arguments, dtype="float64"), points[1])
    triplets = case["hier/triplets"].astype("int32")
    noise = keras.ops.convert_to_tensor(case["hier/noise"].astype("float64"))

    def of(samples, proxies):
        distances = loss.distances(*map(loss._in_ball, (samples, proxies)))
        return keras.ops.mean(loss.costs(distances, triplets, noise)), distances

    value, distances = of(*points)
    # The program adds 1e-5 to a divisor, which matters to its artanh.
    same(distances, case[f"{key}/distances"], 1e-4)
    same(float(value), case[f"{key}/value"], 1e-3)
    _, gradients = differentiated(lambda *x: of(*x)[0], *points)
    expected = [case[f"{key}/{x}"] for x in ("gradient", "weights_gradient")]
    for x, *pair in zip(points, gradients, expected, strict=True):
        same(*(of_equal_rows(x) @ gradient for gradient in pair), 2e-3)


def test_hier_draws_triplets_and_differentiates_samples_and_proxies(oracle):
    case = oracle("losses_programs")
    loss = losses.HIERLoss(6, num_neighbors=4, seed=0, dtype="float64")
    loss = with_weights(loss, case["proxies"])
    value, *gradients = value_and_gradients(loss, IN_ORDER, case["embeddings"])
    assert value > 0 and all(np.isfinite(g).all() and g.any() for g in gradients)


@pytest.mark.parametrize("num_neighbors", [3, 40])
def test_hier_relates_mutual_neighbors_in_batches_of_any_size(num_neighbors):
    loss = losses.HIERLoss(6, num_neighbors=num_neighbors)
    relations = for_any_size(loss.relations, ((None, None), "float32"))
    likeness = np.random.default_rng(0).random((9, 9)).astype("float32")
    nearest = [set(np.argsort(-row)[:num_neighbors]) for row in likeness]
    expected = [
        [i != j and i in nearest[j] and j in nearest[i] for j in range(9)] for i in range(9)
    ]
    related, unrelated = map(
        keras.ops.convert_to_numpy, relations(keras.ops.convert_to_tensor(likeness))
    )
    np.testing.assert_array_equal(related, expected)
    np.testing.assert_array_equal(unrelated, ~related & ~np.eye(9, dtype=bool))


def test_hier_is_finite_in_a_strongly_curved_ball(oracle):
    case = oracle("losses_programs")
    loss = with_weights(losses.HIERLoss(6, curvature=20.0, num_neighbors=4), 9 * case["proxies"])
    found = value_and_gradients(loss, IN_ORDER, 9 * case["embeddings"].astype("float32"))
    assert all(np.isfinite(x).all() for x in found)


# TensorFlow Similarity does not normalise the embeddings, which are unit vectors in float32.
def pn(distance, *arguments, **named):
    return losses.PNLoss(*arguments, distance=distance, normalize=False, **named)


def neighbors(temperature, distance="squared_euclidean", **named):
    return losses.SoftNearestNeighborLoss(temperature, distance, normalize=False, **named)


STRATEGIES = itertools.product(
    ("hard", "easy"), ("hard", "semi-hard", "easy"), (("cosine", "angular"), ("l2", "euclidean"))
)
OF_LABELS = {
    f"pn_{p}_{n}_{name}": pn(distance, 0.3, p, n.replace("-", "_"))
    for p, n, (name, distance) in STRATEGIES
} | {
    "pn_soft": pn("angular", soft=True),
    "pn_soft_easy_hard_l2": pn("euclidean", positive="easy", negative="hard", soft=True),
    "pn_hard_semi-hard_cosine_1.0": pn("angular"),
    "pn_easy_hard_l2_0.05": pn("euclidean", 0.05, "easy", "hard"),
    "pn_hard_hard_sql2_0.8": pn("squared_euclidean", 0.8, "hard", "hard"),
    "pn_easy_semi-hard_l1_0.5": pn(losses.LpDistance(1.0), 0.5, "easy"),
    "pn_hard_easy_snr_2.0": pn("signal_to_noise", 2.0, negative="easy"),
    "soft_nearest_neighbor_1.0": neighbors(1.0, None),
    "soft_nearest_neighbor_0.2": neighbors(0.2),
    "soft_nearest_neighbor_0.3_cosine": neighbors(0.3, "angular"),
    "soft_nearest_neighbor_0.5_l2": neighbors(0.5, "euclidean"),
    "soft_nearest_neighbor_2.0_l1": neighbors(2.0, losses.LpDistance(1.0)),
    "soft_nearest_neighbor_0.7_snr": neighbors(0.7, "signal_to_noise"),
}


@pytest.mark.parametrize("key", OF_LABELS)
def test_equals_tensorflow_similarity(oracle, key):
    case, compared = oracle("losses_similarity"), 0
    batches = [(case["labels"], case["embeddings"])]
    batches += [(case[f"{name}/labels"], case["ties"]) for name in ("ties", "singles", "one_class")]
    for (labels, points), expected, gradient in zip(batches, *similarity(case, key), strict=True):
        points = points.astype("float64")
        value, (found,) = differentiated(partial(OF_LABELS[key], labels), points)
        assert np.isfinite(value) and np.isfinite(found).all()
        if np.isfinite(expected):
            compared += 1
            if "cosine" in key or key == "pn_soft":  # where distances normalise here
                unit = points / np.linalg.norm(points, axis=1, keepdims=True)
                gradient = gradient - np.sum(gradient * unit, axis=1, keepdims=True) * unit
            same(float(value), expected, 1e-5)
            # They add 1e-9 in the logarithm, which matters to shares of 1e-6.
            rtol = 2e-3 if key == "soft_nearest_neighbor_0.2" and compared > 1 else 1e-4
            same(*(of_equal_rows(points) @ x for x in (found, gradient)), rtol)
    assert compared == (3 if key[:2] == "pn" else 4)


def similarity(case, key):
    """Values and gradients of the first batch and of the others."""
    return (
        [case[f"{key}/value"], *case[f"{key}/values"]],
        [case[f"{key}/gradient"], *case[f"{key}/gradients"]],
    )


def pairs_of_views(case):
    first, second, tied = (case[name].astype("float64") for name in ("embeddings", "other", "ties"))
    constant = tied.copy()
    constant[:, 1] = 0.5
    return (first, second), (tied, second), (tied, tied), (constant, second)


@pytest.mark.parametrize(("key", "weight"), [("barlow", 5e-3), ("barlow_0.2", 0.2)])
def test_barlow_twins_equal_tensorflow_similarity(oracle, key, weight):
    case, loss = oracle("losses_similarity"), losses.BarlowTwinsLoss(weight, dtype="float64")
    for views, *expected in zip(pairs_of_views(case), *similarity(case, key), strict=True):
        value, gradients = differentiated(loss.views, *views)
        same(float(value), expected[0], 1e-5)
        same(np.concatenate(gradients), expected[1], 1e-4)


def test_sim_siam_is_that_of_tensorflow_similarity(oracle):
    case = oracle("losses_similarity")
    views = [case[name].astype("float64") for name in ("embeddings", "other")]

    def half(target, prediction):
        cosines = np.sum(target * prediction, axis=1)
        lengths = np.linalg.norm(target, axis=1) * np.linalg.norm(prediction, axis=1)
        return -0.5 * np.mean(cosines / lengths)

    loss = losses.SimSiamLoss(16, dtype="float64")
    value = float(loss.views(*views))
    first, second = (np.asarray(loss.predictor(view, training=True)) for view in views)
    assert value == pytest.approx(half(views[1], first) + half(views[0], second), rel=1e-6)


@pytest.mark.parametrize(("key", "added"), [("sim_siam", 0.0), ("sim_siam_distance", 0.6)])
def test_sim_siam_has_the_gradient_of_tensorflow_similarity(oracle, key, added):
    """There one view is the prediction and both have a gradient; here each is one in turn."""

    class WithoutPredictor(losses.SimSiamLoss):
        def build(self, *shapes):
            self.predictor = keras.layers.Identity(dtype="float64")

    case, loss = oracle("losses_similarity"), WithoutPredictor(dtype="float64")
    for views, *expected in zip(pairs_of_views(case), *similarity(case, key), strict=True):
        value, gradients = differentiated(loss.views, *views)
        # A distance is 1 minus the cosine, and their margin is only added.
        same(float(value) / 2 + added, expected[0], 1e-5)
        same(np.concatenate(gradients), expected[1], 1e-4)
