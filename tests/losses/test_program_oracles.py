"""Losses of papers and of TensorFlow Similarity, against the programs of their authors."""

import itertools
from functools import partial

import keras
import numpy as np
import pytest
from gradients import differentiated, value_and_gradients
from loss_examples import for_any_size, with_weights

from gsp_tf import losses

IN_ORDER = np.repeat(np.arange(3), 4)


def same(actual, expected, rtol):
    tolerance = rtol * np.abs(expected).max()
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=tolerance)


@pytest.mark.parametrize(
    ("key", "arguments"),
    [
        ("recall_at_k", {"recall_at": (1, 2, 4)}),
        ("soft", {"recall_at": (2,), "rank_temperature": 0.2, "recall_temperature": 3.0}),
    ],
)
def test_recall_at_k(oracle, key, arguments):
    case = oracle("losses_programs")
    loss = losses.RecallAtKLoss(**arguments, counts_query=True)
    value, gradient = value_and_gradients(loss, IN_ORDER, case["embeddings"])
    same(value, case[f"{key}/value"], 1e-5)
    same(gradient, case[f"{key}/gradient"], 1e-4)
    # Without the query, which comes first in its own ranking, the rank is smaller by about 1.
    assert losses.RecallAtKLoss(**arguments)(IN_ORDER, case["embeddings"]) < value - 0.05


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


def test_ada_face(oracle):
    case = oracle("losses_programs")
    loss = losses.AdaFaceLoss(6, scale=16.0, momentum=0.9, dtype="float64")
    loss = with_weights(loss, case["proxies"])
    for number, scale in enumerate((10.0, 30.0)):
        value, *gradients = value_and_gradients(loss, case["labels"], scale * case["embeddings"])
        same(value, case[f"ada_face_{number}/value"], 1e-5)
        same(gradients[0], case[f"ada_face_{number}/gradient"], 1e-4)
        same(gradients[1], case[f"ada_face_{number}/weights_gradient"], 1e-4)
    before = float(loss.norm_mean)
    value_and_gradients(loss, case["labels"], case["embeddings"], training=False)
    assert float(loss.norm_mean) == before


@pytest.mark.parametrize(
    ("key", "source"),
    [("batch_proxy", "batch_proxies"), ("all_proxy", "all_proxies"), ("pair", "samples")],
)
def test_anti_collapse(oracle, key, source):
    case = oracle("losses_programs")

    def made(weight):
        inner = losses.NormalizedSoftmaxLoss(6, 1.0, dtype="float64")
        loss = losses.AntiCollapseLoss(inner, weight, source=source, dtype="float64")
        return with_weights(loss, case["proxies"])

    found = [value_and_gradients(made(w), case["labels"], case["embeddings"]) for w in (1.0, 0.0)]
    value, *gradients = (there - back for there, back in zip(*found, strict=True))
    same(value, case[f"{key}/value"], 1e-5)
    same(gradients[key != "pair"], case[f"{key}/gradient"], 1e-4)


def test_hier(oracle):
    case = oracle("losses_programs")
    loss = with_weights(losses.HIERLoss(6, dtype="float64"), case["proxies"])
    triplets = case["hier/triplets"].astype("int32")
    noise = keras.ops.convert_to_tensor(case["hier/noise"].astype("float64"))

    def of(samples, proxies):
        distances = loss.distances(*map(loss._in_ball, (samples, proxies)))
        return keras.ops.mean(loss.costs(distances, triplets, noise)), distances

    points = case["embeddings"], case["proxies"]
    value, distances = of(*points)
    # The program adds 1e-5 to a divisor, which matters to its artanh.
    same(distances, case["hier/distances"], 1e-4)
    same(float(value), case["hier/value"], 1e-3)
    _, gradients = differentiated(lambda *x: of(*x)[0], *points)
    for gradient, key in zip(gradients, ("gradient", "weights_gradient"), strict=True):
        same(gradient, case[f"hier/{key}"], 2e-3)
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


@pytest.mark.parametrize("key", [
    *(f"pn_{p}_{n}_{d}" for p, n, d in itertools.product(
        ("hard", "easy"), ("hard", "semi-hard", "easy"), ("cosine", "l2")
    )),
    "pn_soft", "soft_nearest_neighbor_1.0", "soft_nearest_neighbor_0.2", "barlow",
])  # fmt: skip
def test_equals_tensorflow_similarity(oracle, key):
    case = oracle("losses_similarity")
    points = [case["embeddings"].astype("float64")]
    if key == "barlow":
        points.append(case["other"].astype("float64"))
        function = losses.BarlowTwinsLoss(dtype="float64").views
    else:
        kind, *parts = key.rsplit("_", 3) if key.count("_") == 3 and key[:2] == "pn" else (key,)
        if kind == "pn":
            distance = {"cosine": "angular", "l2": "euclidean"}[parts[2]]
            loss = losses.PNLoss(0.3, parts[0], parts[1].replace("-", "_"), distance)
        elif key == "pn_soft":
            loss = losses.PNLoss(soft=True)
        else:
            loss = losses.SoftNearestNeighborLoss(float(key.rsplit("_", 1)[1]))
        # They do not normalise the embeddings, which are unit vectors in float32.
        loss.normalize = False
        function = partial(loss, case["labels"])
    value, gradients = differentiated(function, *points)
    found = np.concatenate(gradients)
    expected = case[f"{key}/gradient"]
    if "cosine" in key or key == "pn_soft":  # where distances normalise here
        unit = points[0] / np.linalg.norm(points[0], axis=1, keepdims=True)
        expected = expected - np.sum(expected * unit, axis=1, keepdims=True) * unit
    same(float(value), case[f"{key}/value"], 1e-5)
    same(found, expected, 1e-4)


def test_sim_siam_is_that_of_tensorflow_similarity(oracle):
    case = oracle("losses_similarity")
    views = [case[name].astype("float64") for name in ("embeddings", "other")]

    def half(target, prediction):
        cosines = np.sum(target * prediction, axis=1)
        lengths = np.linalg.norm(target, axis=1) * np.linalg.norm(prediction, axis=1)
        return -0.5 * np.mean(cosines / lengths)

    assert half(*views) == pytest.approx(case["sim_siam/value"], rel=1e-5)
    loss = losses.SimSiamLoss(16, dtype="float64")
    value = float(loss.views(*views))
    first, second = (np.asarray(loss.predictor(view, training=True)) for view in views)
    assert value == pytest.approx(half(views[1], first) + half(views[0], second), rel=1e-6)


def test_sim_siam_has_the_gradient_of_tensorflow_similarity(oracle):
    class WithoutPredictor(losses.SimSiamLoss):
        def build(self, *shapes):
            self.predictor = keras.layers.Identity(dtype="float64")

    case = oracle("losses_similarity")
    loss, views = WithoutPredictor(dtype="float64"), (case["embeddings"], case["other"])
    # There one view is the prediction and both have a gradient; here each is one in turn.
    value, gradients = differentiated(loss.views, *(view.astype("float64") for view in views))
    same(float(value) / 2, case["sim_siam/value"], 1e-5)
    same(np.concatenate(gradients), case["sim_siam/gradient"], 1e-4)
