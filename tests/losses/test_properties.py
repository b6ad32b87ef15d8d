from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.losses import (
    AngularLoss,
    BinomialDevianceLoss,
    CircleLoss,
    ContrastiveLoss,
    CosineContrastiveLoss,
    FastAPLoss,
    LiftedStructureLoss,
    MarginLoss,
    MultiSimilarityLoss,
    NPairsLoss,
    SupervisedContrastiveLoss,
    TripletHardLoss,
    TripletLoss,
    TripletSemiHardLoss,
)

# Arguments at which float32 would overflow or lose everything if nobody took care.
EXTREMES = {
    "angular": partial(AngularLoss, 83.0),
    "binomial_deviance": partial(BinomialDevianceLoss, 100.0, 0.5, 25.0),
    "circle": partial(CircleLoss, 0.4, 256.0),
    "contrastive": partial(ContrastiveLoss, 0.0, 2.0),
    "cosine_contrastive": partial(CosineContrastiveLoss, -1.0),
    "fast_ap": partial(FastAPLoss, 20),
    "lifted_structure": partial(LiftedStructureLoss, 100.0),
    "margin": partial(MarginLoss, 100.0),
    "multi_similarity": partial(MultiSimilarityLoss, 100.0, 100.0),
    "n_pairs": NPairsLoss,
    "supervised_contrastive": partial(SupervisedContrastiveLoss, 0.01),
    "triplet": partial(TripletLoss, 100.0),
    "triplet_hard": partial(TripletHardLoss, 100.0),
    "triplet_hard_soft": partial(TripletHardLoss, soft=True),
    "triplet_semi_hard": partial(TripletSemiHardLoss, 100.0),
}
# The others have a term for the negatives, or for the positives, by itself.
NOTHING_WITHOUT_POSITIVES = EXTREMES.keys() - {
    "binomial_deviance", "contrastive", "cosine_contrastive", "multi_similarity",
}  # fmt: skip
NOTHING_WITHOUT_NEGATIVES = NOTHING_WITHOUT_POSITIVES - {"fast_ap", "supervised_contrastive"}

PAIRS, ALL_EQUAL, ALL_DIFFERENT = np.arange(6) // 2, np.zeros(6, int), np.arange(6)
RANDOM = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
UNKNOWN_BATCH = [tf.TensorSpec((None,), "int64"), tf.TensorSpec((None, 4), "float32")]


@pytest.fixture(scope="session")
def run(pair_loss, value_and_gradient):
    """Value and gradient of a loss with extreme arguments: eager, as a graph, and with XLA."""
    compute = partial(value_and_gradient, EXTREMES[pair_loss[0]]())
    compiled = {
        mode: tf.function(compute, input_signature=UNKNOWN_BATCH, jit_compile=mode == "xla")
        for mode in ("graph", "xla")
    }

    def run(mode, labels, embeddings):
        arguments = tf.constant(labels, "int64"), tf.constant(embeddings, "float32")
        value, gradient = compiled.get(mode, compute)(*arguments)
        return value.numpy(), gradient.numpy()

    return run


eager_and_xla = pytest.mark.parametrize("mode", ["eager", "xla"])


def batch(rows, classes, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, rows), rng.normal(size=(rows, 4))


@settings(max_examples=10)
@given(
    rows=st.integers(1, 12),
    classes=st.integers(1, 4),
    scale=st.sampled_from([1e-6, 1e-2, 1e5]),
    names=st.lists(st.integers(-(2**62), 2**62), min_size=4, max_size=4, unique=True),
    seed=st.integers(0, 1000),
)
def test_order_scale_and_names_do_not_matter(
    pair_loss, value_and_gradient, rows, classes, scale, names, seed
):
    name, make = pair_loss
    labels, embeddings = batch(rows, classes, seed)
    order = np.random.default_rng(seed).permutation(rows)
    if name == "n_pairs":
        # It takes the first two of a class, which have to stay the first two.
        for label in range(classes):
            places = np.flatnonzero(labels[order] == label)
            order[places] = np.sort(order[places])
    value, gradient = value_and_gradient(make(), labels, embeddings)
    moved_value, moved_gradient = value_and_gradient(
        make(), np.array(names)[labels[order]], scale * embeddings[order]
    )
    assert float(moved_value) == pytest.approx(float(value), rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(scale * moved_gradient, gradient.numpy()[order], 1e-6, 1e-9)


@eager_and_xla
def test_huge_and_tiny_embeddings_lose_no_digits(run, mode):
    value, gradient = run(mode, PAIRS, RANDOM)
    assert value > 0 and np.abs(gradient).max() > 0
    for scale in (2.0**60, 2.0**-40):
        scaled_value, scaled_gradient = run(mode, PAIRS, scale * RANDOM)
        assert scaled_value == pytest.approx(value, rel=1e-5)
        tolerance = 1e-5 * np.abs(gradient).max()
        np.testing.assert_allclose(scale * scaled_gradient, gradient, rtol=1e-4, atol=tolerance)


@eager_and_xla
def test_finite(run, mode):
    one_not_zero = RANDOM * np.eye(6)[:, :1]
    for embeddings in (RANDOM, 0 * RANDOM, np.ones((6, 4)), one_not_zero, np.sign(RANDOM)):
        for labels in (PAIRS, ALL_EQUAL, ALL_DIFFERENT):
            value, gradient = run(mode, labels, embeddings)
            assert np.isfinite(value) and np.isfinite(gradient).all()


@eager_and_xla
def test_zero_with_no_gradient_where_there_is_nothing_to_average(pair_loss, run, mode):
    cases = [(PAIRS[:1], RANDOM[:1])] if mode != "xla" else []
    if pair_loss[0] in NOTHING_WITHOUT_POSITIVES:
        cases.append((ALL_DIFFERENT, RANDOM))
    if pair_loss[0] in NOTHING_WITHOUT_NEGATIVES:
        cases.append((ALL_EQUAL, RANDOM))
    for labels, embeddings in cases:
        value, gradient = run(mode, labels, embeddings)
        assert value == 0
        np.testing.assert_array_equal(gradient, np.zeros_like(embeddings))


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_embeddings_that_are_not_finite_show_in_the_loss(run, mode):
    for broken in (np.nan, np.inf, -np.inf):
        # The last one is the only one of its class.
        for row in (0, 5):
            embeddings = RANDOM.copy()
            embeddings[row, 1] = broken
            assert np.isnan(run(mode, [0, 0, 1, 1, 2, 3], embeddings)[0])


@pytest.mark.parametrize(("mode", "sizes"), [("graph", (2, 5, 6)), ("xla", (6,))])
def test_any_batch_size(run, mode, sizes):
    for rows in sizes:
        expected, expected_gradient = run("eager", PAIRS[:rows], RANDOM[:rows])
        value, gradient = run(mode, PAIRS[:rows], RANDOM[:rows])
        assert value == pytest.approx(expected, rel=1e-5)
        scale = np.abs(expected_gradient).max()
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize(("dtype", "largest"), [("float16", 6e4), ("bfloat16", 1e-3)])
def test_half_precision(pair_loss, value_and_gradient, dtype, largest):
    labels, embeddings = batch(8, 3, 0)
    embeddings = tf.cast(embeddings * (largest / np.abs(embeddings).max()), dtype)
    loss = pair_loss[1]()
    value, gradient = value_and_gradient(loss, labels, embeddings)
    exact, exact_gradient = value_and_gradient(loss, labels, tf.cast(embeddings, "float64"))
    assert value.dtype == "float32"
    assert float(value) == pytest.approx(float(exact), rel=1e-4)
    assert gradient.dtype == dtype
    error = tf.cast(gradient, "float64") - exact_gradient
    assert np.abs(error).max() < 0.02 * np.abs(exact_gradient).max()


def test_a_mean_over_pairs_is_kept_and_is_zero_without_pairs(loss_over_pairs):
    loss = loss_over_pairs()
    twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert twin.get_config() == loss.get_config() and twin.mean_over_pairs
    assert float(loss(np.array([0]), RANDOM[:1])) == 0.0
    assert float(twin(PAIRS, RANDOM)) == float(loss(PAIRS, RANDOM)) > 0.0
