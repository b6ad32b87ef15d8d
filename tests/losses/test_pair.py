from functools import partial

import keras
import numpy as np
import pytest
from gradients import compiled, value_and_gradient
from printed import assert_as_printed
from scipy.spatial.distance import cdist

from gsp_tf import losses


@pytest.mark.parametrize("mask", [[[True, False, True]], [[False], [True]]])
def test_a_mask_broadcasts_to_the_pairs(mask):
    points = keras.ops.eye(2), keras.ops.ones((3, 2))
    labels = keras.ops.array([1, 2]), keras.ops.array([1, 1, 2])
    pairs = losses.Pairs(*points, *labels, mask=np.array(mask))
    np.testing.assert_array_equal(pairs.positives, mask * np.array([[1, 1, 0], [0, 0, 1]]))
    np.testing.assert_array_equal(pairs.negatives, mask * np.array([[0, 0, 1], [1, 1, 0]]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("coordinate", [0.0, 1.0, 6e4, 6e-8])
def test_coincident_negatives_cost_the_margin_and_have_no_direction(coordinate, dtype):
    embeddings = keras.ops.full((4, 3), coordinate, dtype)
    loss = losses.ContrastiveLoss(negative_margin=0.5)
    value, gradient = value_and_gradient(loss, np.arange(4), embeddings)
    assert value == 0.5
    np.testing.assert_array_equal(gradient, np.zeros((4, 3)))


@pytest.mark.parametrize(
    "distance",
    ["euclidean", "squared_euclidean", "angular", "signal_to_noise", losses.LpDistance(3.0)],
)
def test_coincident_positives_cost_nothing_whatever_the_rounding(distance):
    x = np.repeat(np.random.default_rng(0).normal(size=(40, 64)), 2, axis=0).astype("float32")
    loss = losses.ContrastiveLoss(negative_margin=0.0, distance=distance)
    assert float(loss(np.arange(80) // 2, x)) == 0.0


@pytest.mark.parametrize(
    ("angle", "norm"), [(10.0, 1.0), (45.0, 1.0), (75.0, 1.0), (83.0, 1.0), (45.0, 9.0)]
)
def test_float32_holds_the_large_angles_and_long_embeddings_of_an_angular_loss(angle, norm):
    labels, x = np.arange(32) // 4, np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
    x *= norm / np.linalg.norm(x, axis=1, keepdims=True)
    loss = losses.AngularLoss(angle, normalize=norm == 1)
    single, double = (float(loss(labels, x.astype(dtype))) for dtype in ("float32", "float64"))
    assert single == pytest.approx(double, rel=1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_only_negative_of_a_hard_triplet_gets_the_whole_gradient(jit_compile):
    # It is the farthest of all, and nothing that stands in for the others may share with it.
    x = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 6.0]], "float32")
    loss = losses.TripletHardLoss(margin=9.0, normalize=False)
    run = compiled(partial(value_and_gradient, loss), jit_compile)
    value, gradient = run(np.array([0, 0, 1]), x)
    to_second = np.hypot(3, 2)
    assert float(value) == pytest.approx((9 + 5 - 6 + 9 + 5 - to_second) / 2)
    expected = -(np.array([0, 1]) + np.array([-3, 2]) / to_second) / 2
    np.testing.assert_allclose(gradient[2], expected, rtol=1e-5)


@pytest.mark.parametrize(
    "make_miner",
    [losses.MultiSimilarityMiner, losses.SemiHardNegativeMiner, losses.HardNegativeMiner],
)
def test_mined_negatives_of_a_lifted_structure_are_those_of_both_samples(make_miner):
    """Eq. 4 of Oh Song et al. pair by pair, each term with the weight of its pair."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(15, 3)), rng.integers(0, 4, 15)
    tensors = map(keras.ops.convert_to_tensor, (x, x, labels, labels))
    positives, negatives = map(np.asarray, make_miner()(losses.Pairs(*tensors, True)))
    assert not np.array_equal(negatives, negatives.T)

    def equation_4(x):
        distances, total = cdist(x, x), 0.0
        repulsion = (negatives * np.exp(0.8 - distances)).sum(1)
        for i, j in np.argwhere(positives > 0):
            if repulsion[i] + repulsion[j] > 0:
                term = distances[i, j] + np.log(repulsion[i] + repulsion[j])
                total += positives[i, j] * max(term, 0.0) ** 2 / 2
        return total / positives.sum()

    loss = losses.LiftedStructureLoss(0.8, normalize=False, miner=make_miner())
    assert_as_printed(lambda x: loss(labels, x), equation_4, x)
