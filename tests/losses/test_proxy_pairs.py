import numpy as np
import pytest

from gsp_tf.losses import (
    ContrastiveLoss,
    MultiSimilarityLoss,
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
