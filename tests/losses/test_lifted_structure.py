import keras
import numpy as np
import pytest
from gradients import assert_equals_differences, value_and_gradients
from scipy.spatial.distance import cdist

from gsp_tf import losses

MARGIN = 0.8
MINERS = [losses.MultiSimilarityMiner, losses.SemiHardNegativeMiner, losses.HardNegativeMiner]


def tensors(*arrays):
    return map(keras.ops.convert_to_tensor, arrays)


def equation_4(distances, positives, negatives, negatives_of_references):
    """Eq. 4 of Oh Song et al. pair by pair, each term with the weight of its pair."""
    total = 0.0
    for i, j in np.argwhere(positives > 0):
        repulsion = (negatives[i] * np.exp(MARGIN - distances[i])).sum()
        for of_reference, distance in negatives_of_references(j):
            repulsion += of_reference * np.exp(MARGIN - distance)
        if repulsion > 0:
            term = distances[i, j] + np.log(repulsion)
            total += positives[i, j] * max(term, 0.0) ** 2 / 2
    return total / positives.sum()


@pytest.mark.parametrize("make_miner", MINERS)
def test_mined_negatives_are_those_of_the_rows_of_both_samples(make_miner):
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(15, 3)), rng.integers(0, 4, 15)
    pairs = losses.Pairs(*tensors(x, x, labels, labels), True)
    positives, negatives = map(np.asarray, make_miner()(pairs))
    assert not np.array_equal(negatives, negatives.T)

    def expected(x):
        distances = cdist(x, x)

        def of_row(j):
            return zip(negatives[j], distances[j], strict=True)

        return equation_4(distances, positives, negatives, of_row)

    loss = losses.LiftedStructureLoss(MARGIN, normalize=False, miner=make_miner())
    value, gradient = value_and_gradients(loss, labels, x)
    assert value == pytest.approx(expected(x), rel=1e-9)
    assert_equals_differences([gradient], expected, x)


def test_negatives_of_a_reference_are_the_anchors_that_have_it_among_theirs():
    rng = np.random.default_rng(1)
    anchors, references = rng.normal(size=(6, 3)), rng.normal(size=(9, 3))
    labels, others = rng.integers(0, 3, 6), rng.integers(0, 3, 9)
    pairs = losses.Pairs(*tensors(anchors, references, labels, others))
    positives, negatives = map(np.asarray, losses.MultiSimilarityMiner()(pairs))
    assert negatives.any()

    def expected(anchors):
        distances = cdist(anchors, references)

        def of_column(j):
            return zip(negatives[:, j], distances[:, j], strict=True)

        return equation_4(distances, positives, negatives, of_column)

    loss = losses.LiftedStructureLoss(MARGIN, normalize=False, miner=losses.MultiSimilarityMiner())
    value, gradient = value_and_gradients(
        lambda y, x: loss.pairwise(y, x, others, references), labels, anchors
    )
    assert value == pytest.approx(expected(anchors), rel=1e-9)
    assert_equals_differences([gradient], expected, anchors)
