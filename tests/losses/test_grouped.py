import keras
import numpy as np
import pytest
from gradients import EAGERLY, value_and_gradients
from loss_examples import with_weights

from gsp_tf import losses
from gsp_tf.training import MetricLearner

LABELS, X = np.arange(8) % 4, np.random.default_rng(0).normal(size=(8, 12))


def test_every_group_learns_weights_of_its_own():
    loss = with_weights(
        losses.GroupedLoss(losses.ClassMarginLoss(4, dtype="float64"), 3, 0.0, dtype="float64"),
        columns=12,
    )
    assert [(w.name, tuple(w.shape)) for w in loss.trainable_weights] == 3 * [("betas", (4,))]
    assert len({w.path for w in loss.trainable_weights}) == 3
    value, _, *gradients = value_and_gradients(loss, LABELS, X)
    total = 0.0
    for g, gradient in enumerate(gradients):
        alone = with_weights(losses.ClassMarginLoss(4, dtype="float64"), columns=4)
        alone.betas.assign(loss.trainable_weights[g])
        part, _, expected = value_and_gradients(alone, LABELS, X[:, 4 * g : 4 * g + 4])
        total += part
        np.testing.assert_allclose(gradient, expected / 3, rtol=1e-9)
    assert value == pytest.approx(total / 3, rel=1e-9)


def test_copies_draw_for_themselves_whatever_the_seed():
    mined = losses.ContrastiveLoss(miner=losses.DistanceWeightedMiner(seed=1))
    for inner, seed_of in (
        (losses.PartialFC(losses.ArcFaceLoss(4), seed=2**31 - 1), lambda loss: loss.seed),
        (losses.CrossBatchMemory(mined, 9), lambda loss: loss.loss.miner.seed),
    ):
        loss = losses.GroupedLoss(inner, 3)
        again = losses.GroupedLoss.from_config(loss.get_config())
        seeds = [[seed_of(part) for part in x.group_losses] for x in (loss, again)]
        assert seeds[0] == seeds[1] and seeds[0][0] == seed_of(inner) and len(set(seeds[0])) == 3


def test_evaluation_leaves_the_memories():
    loss = losses.GroupedLoss(losses.CrossBatchMemory(losses.CosineContrastiveLoss(), 30), 3)
    learner = MetricLearner(keras.Sequential([keras.Input((12,)), keras.layers.Dense(12)]), loss)
    learner.compile("adam", run_eagerly=EAGERLY)
    learner.fit(X, LABELS, verbose=0)
    learner.evaluate(X, LABELS, verbose=0)
    assert [int(memory.num_enqueued) for memory in loss.group_losses] == [8, 8, 8]


@pytest.mark.parametrize("loss", [losses.ContrastiveLoss(), losses.ClassMarginLoss(4)])
def test_refuses_columns_that_do_not_divide_into_groups(loss):
    with pytest.raises(ValueError, match="12 columns do not divide into num_groups=5"):
        losses.GroupedLoss(loss, 5)(LABELS, X)
