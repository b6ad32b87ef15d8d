import keras
import numpy as np
import pytest
from gradients import BACKEND, compiled, examples, value_and_gradient
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_examples import MINERS, GivenWeights, pairs_of
from scipy.spatial.distance import cdist
from scipy.stats import chi2

from gsp_tf import losses


def unit(rng, rows, columns):
    x = rng.normal(size=(rows, columns))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def batch(rows, columns, classes, seed, dtype="float64"):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    return pairs_of(unit(rng, rows, columns).astype(dtype), labels)


def mined(miner, pairs):
    return [np.asarray(weights) for weights in miner(pairs)]


def positives_and_negatives(pairs):
    """For each anchor the indices of its positives, and of its negatives."""
    rows = zip(np.asarray(pairs.positives), np.asarray(pairs.negatives), strict=True)
    return [(np.flatnonzero(p), np.flatnonzero(n)) for p, n in rows]


many_batches = given(
    rows=st.integers(1, 12),
    columns=st.integers(2, 4),
    classes=st.integers(1, 5),
    seed=st.integers(0, 1000),
)


@pytest.mark.parametrize("common_count", [False, True])
@settings(max_examples=examples(6))
@many_batches
def test_hard_negatives_are_the_nearest_as_many_as_positives(
    common_count, rows, columns, classes, seed
):
    """As the anchor has, or the one that has most."""
    pairs = batch(rows, columns, classes, seed)
    positives, negatives = mined(losses.HardNegativeMiner(common_count), pairs)
    distances, of_anchors = np.asarray(pairs.distances), positives_and_negatives(pairs)
    most = max(len(own) for own, _ in of_anchors)
    expected = np.zeros_like(negatives)
    for i, (own, others) in enumerate(of_anchors):
        nearest = sorted(others, key=lambda j, i=i: distances[i, j])
        expected[i, nearest[: max(1, most if common_count else len(own))]] = 1
    np.testing.assert_array_equal(negatives, expected)
    np.testing.assert_array_equal(positives, pairs.positives)


@settings(max_examples=examples(6))
@given(
    rows=st.integers(2, 12),
    ranks=st.sampled_from([(1, 1), (3, 2), ((2, 3), (1, 4)), ((1, 2), (2, 9))]),
    seed=st.integers(0, 1000),
)
def test_hard_pairs_are_those_of_the_ranks(rows, ranks, seed):
    pairs = batch(rows, 3, 3, seed)
    distances, expected = np.asarray(pairs.distances), np.zeros((2, rows, rows))
    slices = [slice(0, r) if isinstance(r, int) else slice(r[0] - 1, r[1]) for r in ranks]
    for i, (own, others) in enumerate(positives_and_negatives(pairs)):
        far = sorted(own, key=lambda j, i=i: -distances[i, j])[slices[0]]
        near = sorted(others, key=lambda j, i=i: distances[i, j])[slices[1]]
        if far and near:
            expected[0, i, far] = expected[1, i, near] = 1
    np.testing.assert_array_equal(mined(losses.NHardMiner(*ranks), pairs), expected)


def test_equally_hard_pairs_share_the_weights_of_their_ranks():
    x, labels = np.array([[0.0], [1], [-2], [2], [3]]), np.array([0, 0, 1, 2, 3])
    _, negatives = mined(losses.NHardMiner(1, (2, 3)), pairs_of(x, labels))
    np.testing.assert_array_equal(negatives[0], [0, 0, 0.5, 0.5, 1])
    _, negatives = mined(losses.HardNegativeMiner(), pairs_of(x, labels))
    np.testing.assert_array_equal(negatives[0], [0, 0, 1, 1, 0])  # which keeps them together
    _, negatives = mined(losses.SemiHardNegativeMiner(), pairs_of(x, labels))
    np.testing.assert_array_equal(negatives[0], [0, 0, 0.5, 0.5, 0])
    both = mined(losses.NHardMiner(), batch(9, 3, 3, 0))
    np.testing.assert_array_equal(both, mined(losses.BatchHardMiner(), batch(9, 3, 3, 0)))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.35, 0.55, 0.56, 1.0])
@pytest.mark.parametrize("number", [float, keras.Variable])
def test_a_share_of_pairs_is_rounded_up_to_whole_ones(number, share):
    pairs = pairs_of(np.random.default_rng(0).normal(size=(5, 3)), np.zeros(5, int))
    expected = -(-round(100 * share) * 20 // 100)  # of 20 pairs, in whole numbers
    miner = losses.HDCMiner(share)
    miner.share = number(share)
    assert mined(miner, pairs)[0].sum() == expected


@settings(max_examples=examples(6))
@many_batches
def test_semi_hard_negatives_are_the_nearest_beyond_a_positive(rows, columns, classes, seed):
    pairs = batch(rows, columns, classes, seed)
    positives, negatives = mined(losses.SemiHardNegativeMiner(), pairs)
    distances = np.asarray(pairs.distances)
    expected = np.zeros_like(negatives)
    for a, (own, others) in enumerate(positives_and_negatives(pairs)):
        for p in own:
            beyond = [n for n in others if distances[a, n] > distances[a, p]]
            if beyond:
                expected[a, min(beyond, key=lambda n, a=a: distances[a, n])] += 1
    np.testing.assert_array_equal(negatives, expected)
    np.testing.assert_array_equal(positives, pairs.positives)


class Shifted(losses.Euclidean):
    """Euclidean distances less a number, as inner products may make them negative."""

    def __call__(self, x, y, where=True):
        return super().__call__(x, y, where) - 9.0


@pytest.mark.parametrize("strategies", [("hard", "semi_hard"), ("semi_hard", "hard")])
def test_semi_hard_pairs_depend_on_the_order_of_distances_alone(strategies):
    pairs, miner = batch(14, 3, 4, 0), losses.BatchEasyHardMiner(*strategies)
    weights = mined(miner, pairs)
    np.testing.assert_array_equal(mined(miner, pairs.measured(Shifted())), weights)
    assert all(of_kind.any() for of_kind in weights)


@pytest.mark.parametrize("distance", [losses.Cosine(), losses.LpDistance(1.0)])
def test_distance_weighted_draws_by_euclidean_distances(distance):
    pairs = batch(12, 3, 3, 0)
    miner = losses.DistanceWeightedMiner()
    np.testing.assert_array_equal(
        miner.probabilities(pairs.measured(distance)), miner.probabilities(pairs)
    )


def sampling_probabilities(distances, dim, cutoff, nonzero_loss_cutoff):
    """1 / q(d) of the paper, over the negatives of one anchor; logs keep the powers finite."""
    clipped = np.maximum(distances, cutoff)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_q = (dim - 2) * np.log(clipped) + (dim - 3) / 2 * np.log(1 - clipped**2 / 4)
    near = distances < nonzero_loss_cutoff
    if not near.any():
        return np.full(len(distances), 1 / len(distances))
    weights = np.where(near, np.exp(np.where(near, log_q[near].min() - log_q, 0)), 0)
    return weights / weights.sum()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dim", [2, 3, 128, 512])
@pytest.mark.parametrize("cutoffs", [(0.5, 1.4), (0.1, 1.2), (0.9, 1.95)])
def test_distance_weighted_probabilities_are_the_paper_s(dim, cutoffs, dtype):
    rng = np.random.default_rng(0)
    labels = np.arange(20) // 4
    # Some are near, some far: in many dimensions all random points are 1.4 apart.
    x = unit(rng, 20, dim) + np.linspace(0, 3, 20)[:, None] * unit(rng, 1, dim)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    pairs = pairs_of(x.astype(dtype), labels)
    probabilities = np.asarray(losses.DistanceWeightedMiner(*cutoffs).probabilities(pairs))
    # JAX adds the 512 products of a cosine one by one.
    single = 2e-3 if BACKEND == "jax" else 1e-3
    distances, tolerance = cdist(x, x), 1e-9 if dtype == "float64" else single
    for i, (_, others) in enumerate(positives_and_negatives(pairs)):
        expected = np.zeros(20)
        expected[others] = sampling_probabilities(distances[i, others], dim, *cutoffs)
        np.testing.assert_allclose(
            probabilities[i], expected, rtol=tolerance, atol=1e-6 * tolerance
        )


@settings(max_examples=examples(6))
@many_batches
def test_distance_weighted_draws_as_many_as_there_are_positives(rows, columns, classes, seed):
    pairs = batch(rows, columns, classes, seed, "float32")
    miner = losses.DistanceWeightedMiner(0.3, 1.0, seed=seed)
    positives, negatives = mined(miner, pairs)
    np.testing.assert_array_equal(positives, pairs.positives)
    assert (negatives == np.round(negatives)).all() and (negatives >= 0).all()
    assert (negatives[np.asarray(miner.probabilities(pairs)) == 0] == 0).all()
    for drawn, (own, others) in zip(negatives, positives_and_negatives(pairs), strict=True):
        assert drawn.sum() == (len(own) if others.size else 0)


@pytest.mark.parametrize("jit_compile", [None, True])
def test_distance_weighted_draws_follow_the_probabilities(jit_compile):
    rng = np.random.default_rng(0)
    # One anchor with 4000 positives draws as many times among its twelve negatives.
    anchor, near, far = unit(rng, 1, 3), unit(rng, 12, 3), unit(rng, 4000, 3)
    references = keras.ops.convert_to_tensor(np.concatenate([near, far]), "float32")
    labels = keras.ops.convert_to_tensor(np.repeat([1, 0], [12, 4000]))
    miner = losses.DistanceWeightedMiner(0.3, 1.6, seed=1)

    def draw(anchor):
        pairs = losses.Pairs(anchor, references, 0 * labels[:1], labels)
        return miner(pairs)[1], miner.probabilities(pairs)

    drawn = compiled(draw, jit_compile, [miner.seed_generator.state])(
        keras.ops.convert_to_tensor(anchor, "float32")
    )
    counts, probabilities = (np.asarray(x)[0, :12] for x in drawn)
    possible = probabilities > 0
    expected = 4000 * probabilities[possible]
    assert counts.sum() == 4000 and 6 <= possible.sum() < 12 and (expected > 5).all()
    statistic = np.sum((counts[possible] - expected) ** 2 / expected)
    assert statistic < chi2.ppf(0.999, possible.sum() - 1)


def test_a_seed_repeats_the_draws_and_each_call_draws_others():
    pairs = batch(12, 4, 4, 0)
    first, second = (losses.DistanceWeightedMiner(seed=3) for _ in range(2))
    sequence = [mined(first, pairs)[1] for _ in range(2)]
    for expected in sequence:
        np.testing.assert_array_equal(mined(second, pairs)[1], expected)
    unseeded = [mined(losses.DistanceWeightedMiner(), pairs)[1] for _ in range(2)]
    for one, other in (sequence, unseeded):
        assert not np.array_equal(one, other)


# The others are comparisons, or made of what these do, or compiled by other tests.
@pytest.mark.parametrize(
    "name", ["angular", "batch_easy_hard", "hdc", "n_hard", "semi_hard", "uniform_histogram"]
)
def test_compiled_miners_give_the_same_weights(name):
    pairs, miner = batch(10, 3, 3, 0), MINERS[name]()
    labels = pairs.anchor_labels
    run = compiled(lambda x: miner(losses.Pairs(x, x, labels, labels, True)))
    if BACKEND == "tensorflow":
        assert [x.shape for x in run.get_concrete_function(pairs.anchors).outputs] == [(10, 10)] * 2
    for actual, weights in zip(run(pairs.anchors), mined(miner, pairs), strict=True):
        np.testing.assert_array_equal(actual, weights)


@pytest.mark.parametrize("name", MINERS)
def test_degenerate_batches(name):
    for labels in (np.zeros(1, int), np.zeros(4, int), np.arange(4)):
        pairs = pairs_of(np.zeros((len(labels), 4), "float32"), labels)
        for weights, all_pairs in zip(
            mined(MINERS[name](), pairs), (pairs.positives, pairs.negatives), strict=True
        ):
            assert (weights[np.asarray(all_pairs) == 0] == 0).all()
            assert np.isfinite(weights).all() and (weights >= 0).all()


class Near(losses.Miner):
    """Weighs the pairs by their distances."""

    def __call__(self, pairs):
        weights = keras.ops.exp(-pairs.distances)
        return pairs.positives * weights, pairs.negatives * weights


def test_weights_have_no_gradient():
    rng = np.random.default_rng(0)
    labels, x = np.arange(9) // 3, unit(rng, 9, 3)
    value, gradient = value_and_gradient(losses.ContrastiveLoss(0.1, 1.5, miner=Near()), labels, x)
    given = GivenWeights(*2 * [np.exp(-cdist(x, x))])
    expected = value_and_gradient(losses.ContrastiveLoss(0.1, 1.5, miner=given), labels, x)
    assert float(value) == pytest.approx(float(expected[0]), rel=1e-9)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("miner", [losses.HardNegativeMiner(), losses.TripletMarginMiner(0.5)])
def test_pairs_that_are_mined_stay_as_they_are(miner):
    pairs, loss = batch(9, 3, 3, 0), losses.MarginLoss(miner=miner)
    before = [np.asarray(x) for x in (pairs.positives, pairs.negatives)]
    assert float(loss.mined_loss(pairs)) == float(loss.mined_loss(pairs))
    np.testing.assert_array_equal([pairs.positives, pairs.negatives], before)
