"""Distances, reductions and regularisers of pytorch-metric-learning (`tools/pml/arguments.py`)."""

from functools import partial

import keras
import numpy as np
import pytest
from gradients import value_and_gradient, value_and_gradients
from loss_examples import with_weights
from pml_batches import compare, same

from gsp_tf import losses

C = 12  # number of classes
NAMES = ("random", "ties", "singles", "coincident", "zeros", "square")
FEW = ("random", "singles", "square")


def lp(p, power=1.0):
    return {"distance": losses.LpDistance(float(p), power), "normalize": False}


COSINE, EUCLIDEAN = {"distance": "cosine"}, {"distance": "euclidean"}
SQUARED, SIGNAL = {"distance": "squared_euclidean"}, {"distance": "signal_to_noise"}
DISTANCES = {
    # Their margins of a similarity are 1 minus ours.
    "contrastive_cosine": partial(losses.ContrastiveLoss, 0.1, 0.8, **COSINE),
    "contrastive_dot": partial(
        losses.ContrastiveLoss, 0.5, 1.3, distance="dot_product", normalize=False
    ),
    "contrastive_l1": partial(losses.ContrastiveLoss, 0.3, 4.0, **lp(1)),
    "contrastive_l3_squared": partial(losses.ContrastiveLoss, 0.3, 9.0, **lp(3, 2.0)),
    "contrastive_snr": partial(losses.ContrastiveLoss, 0.13, 3.7, **SIGNAL),
    "generalized_lifted_l1": partial(losses.GeneralizedLiftedStructureLoss, 1.0, 0.2, **lp(1)),
    "intra_pair_l2": partial(losses.IntraPairVarianceLoss, 0.0, 0.0, **EUCLIDEAN),
    "margin_cosine": partial(losses.MarginLoss, 0.2, 0.7, **COSINE),
    "multi_similarity_l1": partial(losses.MultiSimilarityLoss, 2.0, 20.0, -0.5, **lp(1)),
    "n_pairs_l2": partial(losses.NPairsLoss, **EUCLIDEAN),
    "nca_cosine": partial(losses.NCALoss, 3.0, **COSINE),
    "nt_xent_l2": partial(losses.NTXentLoss, 0.5, **EUCLIDEAN),
    "ranked_list_l1": partial(losses.RankedListLoss, 1.4, 1.0, alpha=4.0, **lp(1)),
    "supervised_contrastive_l1": partial(losses.SupervisedContrastiveLoss, 0.7, **lp(1)),
    "triplet_cosine": partial(losses.TripletLoss, 0.2, **COSINE),
    "triplet_l1_swap": partial(losses.TripletLoss, 0.37, swap=True, **lp(1)),
    "triplet_squared_soft": partial(losses.TripletLoss, 0.2, soft=True, **SQUARED),
    "normalized_softmax_l2": partial(losses.NormalizedSoftmaxLoss, C, 0.3, **EUCLIDEAN),
    "arc_face_regularized": partial(
        losses.ArcFaceLoss,
        C,
        scale=8.0,
        proxies_regularizer=losses.RegularFaceRegularizer(0.5),
        embedding_regularizer=losses.LpRegularizer(0.1),
    ),
}
REDUCED = {
    "arc_face": partial(losses.ArcFaceLoss, C, scale=8.0),
    "circle": partial(losses.CircleLoss, 0.4, 8.0),
    "contrastive": partial(losses.ContrastiveLoss, 0.1, 1.3),
    "fast_ap": losses.FastAPLoss,
    "margin": partial(losses.MarginLoss, 0.3, 1.1),
    "multi_similarity": partial(losses.MultiSimilarityLoss, 2.0, 20.0, 0.4),
    "nca": partial(losses.NCALoss, 2.0),
    "nt_xent": partial(losses.NTXentLoss, 0.5),
    "triplet": partial(losses.TripletLoss, 0.3),
    "triplet_swap": partial(losses.TripletLoss, 0.3, swap=True),
    "tuplet_margin": partial(losses.TupletMarginLoss, float(np.degrees(np.radians(20))), 4.0),
}
REDUCTIONS = {
    "mean": "mean",
    "sum": "sum",
    "nonzero_mean": "nonzero_mean",
    "between": losses.Reduction("mean", thresholds=(0.11, 0.77)),
    "below": losses.Reduction("mean", thresholds=(None, 0.53)),
    "class_weights": losses.Reduction("mean", [i % 4 for i in range(1, C + 1)]),
    "per_anchor": "mean_per_anchor",
}
REGULARIZERS = {
    "center_invariant": losses.CenterInvariantRegularizer,
    "lp": losses.LpRegularizer,
    "lp_1_squared": partial(losses.LpRegularizer, p=1.0, power=2.0),
    "lp_3": partial(losses.LpRegularizer, p=3.0),
    "regular_face": losses.RegularFaceRegularizer,
    "sparse_centers_3": partial(losses.SparseCentersRegularizer, centers_per_class=3),
    "zero_mean": losses.ZeroMeanRegularizer,
}


def made(case, make):
    loss = make()
    if not isinstance(loss, losses.PairLoss):
        loss = with_weights(make(dtype="float64"), case["proxies"])
    return loss


# One loss of each kind of terms: samples, pairs, anchors, and two ways of triplets.
OF_REDUCTIONS = {
    f"{loss}_{reduction}": partial(REDUCED[loss], reduction=given)
    for loss in ("arc_face", "contrastive", "fast_ap", "triplet", "triplet_swap")
    for reduction, given in REDUCTIONS.items()
    # Losses over triplets have no terms of anchors there.
    if not (loss.startswith("triplet") and reduction == "per_anchor")
}


@pytest.mark.parametrize("key", DISTANCES)
def test_distances_and_regularizers_of_losses(oracle, key):
    skip, rtol = (), 1e-5
    if key.startswith("ranked_list"):  # they add 1e-5 to weights, and drop negatives at distance 0
        skip, rtol = ("coincident", "zeros"), 1e-3
    if key == "margin_cosine":
        skip = ("ties",)  # rounding of a distance at its margin adds a term
    case = oracle("loss_arguments")
    make = partial(made, case, DISTANCES[key])
    assert compare(case, key, make, NAMES, skip, rtol=rtol) >= 4


@pytest.mark.parametrize("key", OF_REDUCTIONS)
def test_reductions(oracle, key):
    case = oracle("loss_arguments")
    assert compare(case, key, partial(made, case, OF_REDUCTIONS[key]), FEW) >= 2


@pytest.mark.parametrize(
    "loss", [k for k in REDUCED if k not in ("margin", "triplet", "triplet_swap")]
)
def test_losses_of_every_pair(oracle, loss):
    case = oracle("loss_arguments")
    for name in ("random", "square"):
        made_loss = made(case, partial(REDUCED[loss], reduction="none"))
        found = made_loss(case[f"{name}/labels"], case[f"{name}/embeddings"])
        found = keras.ops.convert_to_numpy(found)
        expected = case[f"{loss}/none/{name}"]
        if isinstance(made_loss, losses.PairLoss):
            assert found.shape == expected.shape
        same(found, expected, 1e-6)


@pytest.mark.parametrize("name", ["proxies", "zeros", "coincident"])
@pytest.mark.parametrize("key", REGULARIZERS)
def test_regularizers(oracle, key, name):
    case, regularizer = oracle("loss_arguments"), REGULARIZERS[key]()
    rows = case["proxies"] if name == "proxies" else case[f"{name}/embeddings"]
    value, gradient = value_and_gradient(lambda _, x: regularizer(x), np.zeros(1), rows)
    assert np.isfinite(gradient).all()
    # A zero vector has a distance of 1 to a unit vector here, and of the root of 2 there.
    if (key, name) != ("sparse_centers_3", "zeros"):
        same(float(value), float(case[f"{key}/{name}/value"]), 1e-6)
    # Where two rows are equally near, one has the gradient there.
    if name == "proxies" or key not in ("regular_face", "sparse_centers_3"):
        same(np.asarray(gradient), case[f"{key}/{name}/gradient"], 1e-5)
    half = REGULARIZERS[key](weight=0.5)
    assert float(type(half).from_config(half.get_config())(rows)) == pytest.approx(value / 2)


@pytest.mark.parametrize("key", ["contrastive_l3_squared", "contrastive_snr"])
def test_distances_compile(oracle, key):
    case, start = oracle("loss_arguments"), NAMES.index("coincident")
    rows = slice(12 * start, 12 * start + 12)
    labels, embeddings = case["coincident/labels"], case["coincident/embeddings"].astype("float32")
    value, gradient = value_and_gradients(DISTANCES[key](), labels, embeddings, jit_compile=True)
    assert value == pytest.approx(case[f"{key}/values"][start], rel=1e-4)
    same(gradient, case[f"{key}/gradients"][rows], 1e-3)
