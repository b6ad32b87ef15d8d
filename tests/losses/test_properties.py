from functools import cache, partial

import keras
import numpy as np
import pytest
from gradients import value_and_gradient
from loss_examples import PAIR_LOSSES, for_any_size, graph_and_xla

from gsp_tf import losses

# Arguments at which float32 would overflow or lose everything if nobody took care.
EXTREMES = PAIR_LOSSES | {
    "angular": partial(losses.AngularLoss, 83.0),
    "binomial_deviance": partial(losses.BinomialDevianceLoss, 100.0, 0.5, 25.0),
    "circle": partial(losses.CircleLoss, 0.4, 256.0),
    "contrastive": partial(losses.ContrastiveLoss, 0.0, 2.0),
    "cosine_contrastive": partial(losses.CosineContrastiveLoss, -1.0),
    "generalized_lifted_structure": partial(losses.GeneralizedLiftedStructureLoss, 100.0),
    "instance": partial(losses.InstanceLoss, 200.0),
    "lifted_structure": partial(losses.LiftedStructureLoss, 100.0),
    "margin": partial(losses.MarginLoss, 100.0),
    "multi_similarity": partial(losses.MultiSimilarityLoss, 100.0, 100.0),
    "nca": partial(losses.NCALoss, 200.0),
    "nt_xent": partial(losses.NTXentLoss, 0.005),
    "pnp": partial(losses.PNPLoss, "Iu", temperature=0.05),
    "pn": partial(losses.PNLoss, 100.0),
    "ranked_list": partial(losses.RankedListLoss, 0.4, 200.0, positive_temperature=200.0),
    "recall_at_k": partial(losses.RecallAtKLoss, rank_temperature=0.05),
    "smooth_ap": partial(losses.SmoothAPLoss, 0.05),
    "soft_nearest_neighbor": partial(losses.SoftNearestNeighborLoss, 0.01),
    "supervised_contrastive": partial(losses.SupervisedContrastiveLoss, 0.01),
    "surrogate_precision": partial(losses.SurrogatePrecisionLoss, 2, 0.05, 0.5),
    "triplet": partial(losses.TripletLoss, 100.0),
    "triplet_hard": partial(losses.TripletHardLoss, 100.0),
    "triplet_semi_hard": partial(losses.TripletSemiHardLoss, 100.0),
    "triplet_swap_soft": partial(losses.TripletLoss, 100.0, swap=True, soft=True),
    "tuplet_margin": partial(losses.TupletMarginLoss, 20.0, 200.0),
}
# The others have a term for the negatives, or for the positives, by itself.
NOTHING_WITHOUT_POSITIVES = EXTREMES.keys() - {
    "binomial_deviance", "contrastive", "cosine_contrastive", "generalized_lifted_structure",
    "instance", "intra_pair_variance", "multi_similarity", "ranked_list",
    "signal_to_noise_contrastive", "threshold_consistent_margin",
}  # fmt: skip
NOTHING_WITHOUT_NEGATIVES = NOTHING_WITHOUT_POSITIVES - {
    "fast_ap", "recall_at_k", "supervised_contrastive", "surrogate_precision",
}  # fmt: skip

PAIRS, ALL_EQUAL, ALL_DIFFERENT = np.arange(6) // 2, np.zeros(6, int), np.arange(6)
RANDOM = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")


# XLA rewrites arithmetic. These hold every kind of computation that the losses are made of:
# distances, logarithms of sums, a loop over marks, comparisons within rows.
modes = graph_and_xla(EXTREMES, always=["circle", "triplet", "triplet_semi_hard"])


@cache
def function_of(name, mode):
    """Value and gradient of a loss with extreme arguments: eager, as a graph, or with XLA."""
    compute = partial(value_and_gradient, EXTREMES[name]())
    if mode == "eager":
        return compute
    # XLA compiles for every number of columns.
    columns = 4 if mode == "xla" else None
    signature = ((None,), "int64"), ((None, columns), "float32")
    return for_any_size(compute, *signature, jit_compile=mode == "xla")


def run(name, mode, labels, embeddings):
    labels = keras.ops.convert_to_tensor(labels, "int64")
    embeddings = keras.ops.convert_to_tensor(embeddings, "float32")
    return tuple(np.asarray(x) for x in function_of(name, mode)(labels, embeddings))


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_order_scale_and_names_do_not_matter(name):
    make, rows, classes, scale = PAIR_LOSSES[name], 12, 4, 1e-6
    rng = np.random.default_rng(0)
    labels, embeddings = rng.integers(0, classes, rows), rng.normal(size=(rows, 4))
    order, names = rng.permutation(rows), rng.integers(-(2**62), 2**62, classes)
    if name == "n_pairs":
        # It takes the first two of a class, which have to stay the first two.
        for label in range(classes):
            places = np.flatnonzero(labels[order] == label)
            order[places] = np.sort(order[places])
    value, gradient = value_and_gradient(make(), labels, embeddings)
    moved_value, moved_gradient = value_and_gradient(
        make(), names[labels[order]], scale * embeddings[order]
    )
    assert float(moved_value) == pytest.approx(float(value), rel=1e-9, abs=1e-12)
    gradient, moved_gradient = np.asarray(gradient), np.asarray(moved_gradient)
    np.testing.assert_allclose(scale * moved_gradient, gradient[order], 1e-6, 1e-9)


@modes
def test_huge_and_tiny_embeddings_lose_no_digits(name, mode):
    value, gradient = run(name, mode, PAIRS, RANDOM)
    assert value > 0 and np.abs(gradient).max() > 0
    for scale in (2.0**60, 2.0**-40):
        scaled_value, scaled_gradient = run(name, mode, PAIRS, scale * RANDOM)
        assert scaled_value == pytest.approx(value, rel=1e-5)
        tolerance = 1e-5 * np.abs(gradient).max()
        np.testing.assert_allclose(scale * scaled_gradient, gradient, rtol=1e-4, atol=tolerance)


@modes
def test_finite(name, mode):
    one_not_zero = RANDOM * np.eye(6)[:, :1]
    sizes = 0 * RANDOM, 1e-30 * RANDOM, 1e30 * RANDOM
    for embeddings in (RANDOM, *sizes, np.ones((6, 4)), one_not_zero, np.sign(RANDOM)):
        for labels in (PAIRS, ALL_EQUAL, ALL_DIFFERENT):
            value, gradient = run(name, mode, labels, embeddings)
            assert np.isfinite(value) and np.isfinite(gradient).all()


@modes
def test_zero_with_no_gradient_where_there_is_nothing_to_average(name, mode):
    cases = [(PAIRS[:1], RANDOM[:1])] if mode != "xla" else []
    if name in NOTHING_WITHOUT_POSITIVES:
        cases.append((ALL_DIFFERENT, RANDOM))
    if name in NOTHING_WITHOUT_NEGATIVES:
        cases.append((ALL_EQUAL, RANDOM))
    for labels, embeddings in cases:
        value, gradient = run(name, mode, labels, embeddings)
        assert value == 0
        np.testing.assert_array_equal(gradient, np.zeros_like(embeddings))


@modes
def test_any_batch_size(name, mode):
    # XLA compiles once for every size.
    for rows in (6,) if mode == "xla" else (2, 5):
        expected, expected_gradient = run(name, "eager", PAIRS[:rows], RANDOM[:rows])
        value, gradient = run(name, mode, PAIRS[:rows], RANDOM[:rows])
        assert value == pytest.approx(expected, rel=1e-5)
        scale = np.abs(expected_gradient).max()
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-5 * scale)
