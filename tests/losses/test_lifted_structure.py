import keras
import numpy as np
import pytest
from printed import assert_as_printed
from scipy.spatial.distance import cdist

from gsp_tf import losses


@pytest.mark.parametrize(
    "make_miner",
    [losses.MultiSimilarityMiner, losses.SemiHardNegativeMiner, losses.HardNegativeMiner],
)
def test_mined_negatives_are_those_of_the_rows_of_both_samples(make_miner):
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
