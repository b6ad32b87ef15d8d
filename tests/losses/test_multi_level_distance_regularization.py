import numpy as np
import pytest
from gradients import assert_equals_differences, value_and_gradients, value_of
from scipy.spatial.distance import pdist

from gsp_tf.losses import ContrastiveLoss, MultiLevelDistanceRegularization

LEVELS = np.array([-1.5, 0.2, 1.0])


def batches(sizes, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.integers(0, 3, n), 4 * rng.normal(size=(n, columns))) for n in sizes]


def value_at(pair_loss, labels, embeddings, levels, mean, deviation, weight):
    """The definition, with a running mean and deviation."""
    distances = pdist(embeddings)
    normalized = (distances - mean) / deviation
    off_level = [np.min(np.abs(d - levels)) for d in normalized]
    pairs = float(pair_loss(labels, embeddings / distances.mean()))
    return pairs + weight * np.mean(off_level)


@pytest.mark.parametrize(
    "pair_loss",
    [ContrastiveLoss(0, 1.5), ContrastiveLoss(0, 1.5, normalize=False)],
    ids=["unit", "raw"],
)
def test_equals_the_definition_over_several_steps(pair_loss):
    loss = MultiLevelDistanceRegularization(pair_loss, 0.3, LEVELS, dtype="float64")
    running = np.zeros(2)
    for step, (labels, embeddings) in enumerate(batches([4, 5], columns=2)):
        distances = pdist(embeddings)
        now = np.array([distances.mean(), distances.std()])
        kept = 0.9 if step > 0 else 0.0
        running = kept * running + (1 - kept) * now
        value, *gradients = value_and_gradients(loss, labels, embeddings)
        arguments = *running, 0.3
        assert value == pytest.approx(
            value_at(pair_loss, labels, embeddings, LEVELS, *arguments), rel=1e-9
        )
        assert_equals_differences(
            gradients,
            lambda x, s, y=labels, a=arguments: value_at(pair_loss, y, x, s, *a),
            embeddings,
            LEVELS,
        )
        assert np.abs(gradients[1]).max() > 0.01
        np.testing.assert_allclose([loss.mean, loss.deviation], running, rtol=1e-12)
        assert int(loss.num_updates) == step + 1


def test_evaluation_uses_the_running_statistics_and_leaves_them():
    loss = MultiLevelDistanceRegularization(ContrastiveLoss(), levels=LEVELS, dtype="float64")
    (labels, embeddings), (other_labels, other) = batches([6, 5])
    value_of(loss, labels, embeddings)
    before = [w.numpy() for w in loss.weights]
    value = value_of(loss, other_labels, other, training=False)
    statistics = pdist(embeddings).mean(), pdist(embeddings).std()
    expected = value_at(ContrastiveLoss(), other_labels, other, LEVELS, *statistics, 1.0)
    assert value == pytest.approx(expected, rel=1e-9)
    for weight, old in zip(loss.weights, before, strict=True):
        np.testing.assert_array_equal(weight, old)
