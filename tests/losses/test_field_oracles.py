"""Losses of pytorch-metric-learning, on the batches of `tools/pml/reference.py`."""

from functools import partial

import numpy as np
import pytest
from gradients import differentiated, value_and_gradients
from loss_examples import with_weights
from pml_batches import BATCHES, compare, same

from gsp_tf import losses

C = 12  # number of classes

# With their default arguments tests/docs/test_migration.py compares them.
PAIRS = {
    "generalized_lifted_0.4_0.2": partial(losses.GeneralizedLiftedStructureLoss, 0.4, 0.2),
    "histogram_7": partial(losses.HistogramLoss, 7),
    "instance_3": partial(losses.InstanceLoss, 3.0),
    "intra_pair_variance_0.3_0.1": partial(losses.IntraPairVarianceLoss, 0.3, 0.1),
    "nca_6": partial(losses.NCALoss, 6.0),
    "nt_xent_0.5": partial(losses.NTXentLoss, 0.5),
    "pnp_O": losses.PNPLoss,
    "pnp_Iu": partial(losses.PNPLoss, "Iu", temperature=0.1),
    "pnp_Ib_5": partial(losses.PNPLoss, "Ib", b=5.0, temperature=0.2),
    "pnp_Ds": partial(losses.PNPLoss, "Ds", temperature=0.1),
    "pnp_Dq_3": partial(losses.PNPLoss, "Dq", 3.0, temperature=0.3),
    "ranked_list_0.6_2": partial(losses.RankedListLoss, 0.6, 2.0, 0.3, 1.1, 3.0),
    "signal_to_noise_0.2_3": partial(losses.SignalToNoiseContrastiveLoss, 0.2, 3.0),
    "smooth_ap_0.2": partial(losses.SmoothAPLoss, 0.2),
    "threshold_consistent_0.5_0.1": partial(
        losses.ThresholdConsistentMarginLoss, 0.5, 0.1, 2.0, 3.0
    ),
    "triplet_swap_0.3": partial(losses.TripletLoss, 0.3, swap=True),
    "triplet_soft_0.1": partial(losses.TripletLoss, 0.1, soft=True),
    "triplet_swap_soft_1": partial(losses.TripletLoss, 1.0, swap=True, soft=True),
    "tuplet_margin_20_8": partial(losses.TupletMarginLoss, 20.0, 8.0),
    "weighted_sum": lambda: losses.WeightedSumLoss(
        [losses.TupletMarginLoss(), losses.IntraPairVarianceLoss()], [1.0, 0.5], dtype="float64"
    ),
    "dynamic_soft_margin_-2.5_30": partial(
        losses.DynamicSoftMarginLoss, -2.5, 30, 0.3, dtype="float64"
    ),
}
OF_PROXIES = {
    "large_margin_softmax_4": partial(losses.LargeMarginSoftmaxLoss, C),
    "large_margin_softmax_3": partial(losses.LargeMarginSoftmaxLoss, C, 3, 2.0),
    "sphere_face_4": partial(losses.SphereFaceLoss, C),
    "sphere_face_2": partial(losses.SphereFaceLoss, C, 2, 3.0),
    "p2s_grad": partial(losses.P2SGradLoss, C),
    "sub_center_arc_face_3": partial(losses.SubCenterArcFaceLoss, C),
    "sub_center_arc_face_2": partial(losses.SubCenterArcFaceLoss, C, 50.0, 8.0, 2),
    "manifold_3": partial(losses.ManifoldLoss, 3),
    "manifold_5": partial(losses.ManifoldLoss, 5, 0.3, 0.6, 0.05),
}
OF_VIEWS = {
    "vicreg": losses.VICRegLoss,
    "vicreg_2_3_5": partial(losses.VICRegLoss, 2.0, 3.0, 5.0, 0.01),
    "self_supervised": lambda **k: losses.SelfSupervisedLoss(losses.NTXentLoss(0.3), **k),
    "self_supervised_one_way": lambda **k: losses.SelfSupervisedLoss(
        losses.NTXentLoss(0.3), symmetric=False, **k
    ),
}

IN_MEMORY = {
    "angular": losses.AngularLoss,
    "circle": partial(losses.CircleLoss, 0.3, 8.0),
    "contrastive": partial(losses.ContrastiveLoss, 0.1, 1.3),
    "margin": partial(losses.MarginLoss, 0.3, 1.1),
    "multi_similarity": partial(losses.MultiSimilarityLoss, 2.0, 20.0, 0.4),
    "mined": lambda: losses.MultiSimilarityLoss(
        2.0, 20.0, 0.4, miner=losses.MultiSimilarityMiner()
    ),
    "supervised_contrastive": partial(losses.SupervisedContrastiveLoss, 0.5),
    "triplet": partial(losses.TripletLoss, 0.3),
}

# Batches whose numbers differ because pytorch-metric-learning does not compute what the paper has,
# as the tests below do. It stops or gives NaN or infinity in others.
OTHER_VALUES = {
    "histogram": {"singles"},
    "instance": {*BATCHES} - {"no_positives"},
    "ranked_list": {"coincident", "zeros"},  # negatives at distance 0
    "signal_to_noise_0.2_3": {"ties"},  # rounding of a distance at its margin adds a pair
    "smooth_ap": {*BATCHES} - {"square"},
}
# Where two distances are equal, rounding decides which has the gradient. At a cosine of 0 the
# slope of its positive part is 0 here and 1 there.
OTHER_GRADIENTS = {"triplet_swap": {"ties"}, "dynamic": {"ties"}, "manifold": {"ties"}}


def differing(batches, key):
    """The names of the batches in which a loss has another number."""
    return set().union(*(names for start, names in batches.items() if key.startswith(start)))


def of_proxies(case, key):
    """The loss of a key with the proxies of the library."""
    weights = case["proxies"][: case[f"{key}/weights_gradients"].shape[1]]
    return with_weights(OF_PROXIES[key](dtype="float64"), weights)


@pytest.mark.parametrize("key", PAIRS | OF_PROXIES)
def test_equals_pytorch_metric_learning(oracle, key):
    case = oracle("losses_field")
    proxies = case["proxies"][:C]

    def tangent(gradient):
        """P2SGrad puts the proxies back on the sphere after each step there."""
        norms = np.linalg.norm(proxies, axis=1, keepdims=True)
        along = np.sum(gradient * proxies / norms, axis=1, keepdims=True)
        return (gradient - along * proxies / norms) / norms

    compared = compare(
        case,
        key,
        PAIRS.get(key, partial(of_proxies, case, key)),
        skip=differing(OTHER_VALUES, key),
        skip_gradients=differing(OTHER_GRADIENTS, key),
        rtol=1e-3 if key.startswith("ranked_list") else 1e-5,  # they add 1e-5 to every weight
        of_weights=tangent if key == "p2s_grad" else np.asarray,
        zeros_rest=True,
    )
    assert compared >= (1 if key.startswith(("instance", "smooth_ap")) else 6)


@pytest.mark.parametrize("key", [k for k in PAIRS if k.startswith(
    ("generalized", "intra_pair", "nca", "nt_xent", "signal", "tuplet")
)])  # fmt: skip
def test_references_equal_pytorch_metric_learning(oracle, key):
    case, loss = oracle("losses_field"), PAIRS[key]()
    anchors, references = (case[f"{name}/embeddings"] for name in ("square", "zeros"))
    labels, reference_labels = (case[f"{name}/labels"] for name in ("square", "singles"))
    value, gradients = differentiated(
        lambda x, y: loss.pairwise(labels, x, reference_labels, y), anchors, references
    )
    same(float(value), case[f"{key}/references/values"][0], 1e-5)
    expected = case[f"{key}/references/gradients"]
    is_zero = ~np.concatenate([anchors, references]).any(axis=1)
    found = np.concatenate(gradients)
    same(found[~is_zero], expected[~is_zero], 1e-4)


@pytest.mark.parametrize("key", OF_VIEWS)
def test_views_equal_pytorch_metric_learning(oracle, key):
    case, loss = oracle("losses_field"), OF_VIEWS[key](dtype="float64")
    points = [case[f"{name}/embeddings"] for name in ("random", "zeros")]
    value, gradients = differentiated(loss.views, *points)
    same(float(value), case[f"{key}/values"][0], 1e-5)
    is_zero = ~np.concatenate(points).any(axis=1) & key.startswith("self")
    found = np.concatenate(gradients)
    same(found[~is_zero], case[f"{key}/gradients"][~is_zero], 1e-4)
    # The two views of an image may lie anywhere in a batch; the earlier one is the first.
    order = np.random.default_rng(0).permutation(24)
    labels, embeddings = np.tile(np.arange(12), 2)[order], np.concatenate(points)[order]
    if key == "self_supervised":
        same(float(loss(labels, embeddings)), case[f"{key}/values"][0], 1e-5)
    for wrong in (labels // 2, np.arange(24), labels[:23]):
        with pytest.raises(ValueError, match="two views of each image, that is every label twice"):
            loss(wrong, embeddings[: len(wrong)])


@pytest.mark.parametrize("key", IN_MEMORY)
def test_a_memory_equals_that_of_pytorch_metric_learning(oracle, key):
    case, start = oracle("losses_field"), 0
    loss = losses.CrossBatchMemory(IN_MEMORY[key](), 20, dtype="float64")
    for index, name in enumerate(("random", "square", "singles")):
        if (key, name) == ("mined", "singles"):
            continue  # Their miner takes the copy of a sample in the memory for a positive of it.
        labels, x = unit(case, name)
        value, gradient = value_and_gradients(loss, labels, x)
        same(value, case[f"memory_{key}/values"][index], 1e-5)
        expected = case[f"memory_{key}/gradients"][start : (start := start + len(labels))]
        # AngularLoss there does not normalise negatives, so that their gradient has a radial part.
        expected = expected - np.sum(expected * x, axis=1, keepdims=True) * x
        same(gradient, expected, 1e-4)


@pytest.mark.parametrize("swap", [False, True])
def test_drawn_triplets_cost_as_much_as_all_on_average(oracle, swap):
    case = oracle("losses_field")
    batch = case["random/labels"], case["random/embeddings"]
    drawn = losses.TripletLoss(5.0, swap, triplets_per_anchor=200, seed=1)
    expected = float(losses.TripletLoss(5.0, swap)(*batch))
    value = float(drawn(*batch))
    assert value == pytest.approx(expected, rel=0.02) and value != expected


def test_a_dynamic_margin_remembers_the_last_batch(oracle):
    case = oracle("losses_field")
    loss, start = losses.DynamicSoftMarginLoss(dtype="float64"), 0
    for index, name in enumerate(("random", "square")):
        labels, embeddings = case[f"{name}/labels"], case[f"{name}/embeddings"]
        value, gradient = value_and_gradients(loss, labels, embeddings)
        same(value, case["two_batches/values"][index], 1e-5)
        rows = slice(start, start := start + len(labels))
        same(gradient, case["two_batches/gradients"][rows], 1e-4)
    same(np.asarray(loss.histogram), case["two_batches/histogram"], 1e-6)
    value_and_gradients(loss, labels, embeddings, training=False)
    same(np.asarray(loss.histogram), case["two_batches/histogram"], 1e-6)


def unit(case, name):
    embeddings = case[f"{name}/embeddings"]
    norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return case[f"{name}/labels"], embeddings / np.where(norms > 0, norms, 1.0)


@pytest.mark.parametrize("name", ["random", "singles", "ties"])
def test_smooth_ap_is_that_of_the_paper(oracle, name):
    labels, x = unit(oracle("losses_field"), name)
    similarities, of_anchor = x @ x.T, []
    for i, own in enumerate(labels == labels[:, None]):
        if own.sum() > 1:
            above = 1 / (1 + np.exp((similarities[i][:, None] - similarities[i]) / 0.2))
            np.fill_diagonal(above, 0.0)  # [j, k]: k before j
            ratios = (1 + above[:, own].sum(1)) / (1 + above.sum(1))
            of_anchor.append(1 - ratios[own].mean())
    value = float(losses.SmoothAPLoss(0.2)(labels, x))
    assert value == pytest.approx(np.mean(of_anchor), rel=1e-9)


def test_the_histogram_has_the_negative_pairs_of_single_samples(oracle):
    labels, x = unit(oracle("losses_field"), "singles")
    upper = np.triu_indices(len(x), 1)
    places, own = ((x @ x.T)[upper] + 1) * 3.5, (labels == labels[:, None])[upper]
    nodes = np.maximum(1 - np.abs(places[:, None] - np.arange(8)), 0)
    expected = nodes[~own].mean(0) @ np.cumsum(nodes[own].mean(0))
    assert float(losses.HistogramLoss(7)(labels, x)) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("name", ["random", "square"])
def test_the_target_of_an_instance_is_of_its_class(oracle, name):
    labels, x = unit(oracle("losses_field"), name)
    logits = 3.0 * x @ x.T
    log_shares = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    own = labels == labels[:, None]
    expected = -np.mean(np.sum(own * log_shares, 1) / own.sum(1))
    assert float(losses.InstanceLoss(3.0)(labels, x)) == pytest.approx(expected, rel=1e-9)


def test_a_ranked_list_has_the_negatives_at_distance_zero(oracle):
    labels, x = unit(oracle("losses_field"), "coincident")
    distances = np.linalg.norm(x[:, None] - x, axis=2)
    distances[distances < 1e-7] = 0.0
    total = 0.0
    for i, own in enumerate(labels == labels[:, None]):
        others = ~own & (distances[i] < 1.2)
        own = own & (np.arange(len(x)) != i) & (distances[i] > 0.8)
        weights = np.exp(10 * (1.2 - distances[i][others]))
        total += 0.5 * np.sum(weights * (1.2 - distances[i][others])) / max(weights.sum(), 1e-9)
        total += 0.5 * (distances[i][own] - 0.8).mean() if own.any() else 0.0
    value = float(losses.RankedListLoss()(labels, x))
    assert value == pytest.approx(total / len(x), rel=1e-9)
