import keras
import numpy as np
import pytest

from gsp_tf.losses import (
    ContrastiveLoss,
    MultiSimilarityLoss,
    ProxyNCALoss,
    ProxyPairsLoss,
    TripletLoss,
)

LABELS = np.array([0, 0, 1, 2, 2, 1])
EMBEDDINGS = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")


@pytest.mark.parametrize("batch_weight", [0.0, 0.3])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("pair_loss", [ContrastiveLoss(), MultiSimilarityLoss(), TripletLoss(1.0)])
def test_samples_are_paired_with_proxies_class_by_class(pair_loss, k, batch_weight):
    loss = ProxyPairsLoss(pair_loss, 3, k, batch_weight)
    value = float(loss(LABELS[:, None], EMBEDDINGS))
    proxies = loss.proxies.numpy()
    assert proxies.shape == (3 * k, 4)
    expected = pair_loss.pairwise(LABELS, EMBEDDINGS, np.arange(3 * k) // k, proxies)
    expected += batch_weight * pair_loss(LABELS, EMBEDDINGS)
    assert value == pytest.approx(float(expected), rel=1e-6)


def test_config_round_trip():
    loss = ProxyPairsLoss(TripletLoss(0.3), 5, 2, 0.1, name="pairs")
    twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert (twin.num_classes, twin.proxies_per_class, twin.batch_weight) == (5, 2, 0.1)
    assert isinstance(twin.loss, TripletLoss) and twin.loss.margin == 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ProxyNCALoss(2), 2), "takes a pair loss"),
        ((ContrastiveLoss(), 0), "num_classes must be at least 1, received 0"),
        ((ContrastiveLoss(), 2, 0), "needs at least 1 proxy, received 0"),
        ((ContrastiveLoss(), 2, 1, -1.0), "batch_weight must not be negative, received -1.0"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ProxyPairsLoss(*arguments)
