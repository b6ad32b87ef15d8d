import numpy as np
import pytest
from loss_examples import with_weights
from scipy.special import log_softmax

from gsp_tf.losses import NormalizedSoftmaxLoss, ProxyNCALoss, SoftTripleLoss, VirtualClass

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 4, 9)
EMBEDDINGS, PROXIES = RNG.normal(size=(9, 3)), RNG.normal(size=(4, 3))


@pytest.mark.parametrize(
    ("proxy_loss", "scale"),
    [
        (NormalizedSoftmaxLoss(4, temperature=0.3, dtype="float64"), 1 / 0.3),
        (ProxyNCALoss(4, temperature=0.3, dtype="float64"), 2 / 0.3),
        (SoftTripleLoss(4, 1, scale=7.0, margin=0.0, dtype="float64"), 7.0),
    ],
)
def test_a_class_at_the_sample_itself_is_added(proxy_loss, scale):
    loss = with_weights(VirtualClass(proxy_loss, dtype="float64"), PROXIES)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (EMBEDDINGS, PROXIES)]
    cosines = np.column_stack([unit[0] @ unit[1].T, np.ones(len(LABELS))])
    expected = -np.mean(log_softmax(scale * cosines, axis=1)[np.arange(len(LABELS)), LABELS])
    value = float(loss(LABELS, EMBEDDINGS))
    assert value == pytest.approx(expected, rel=1e-9)
    alone = float(proxy_loss(LABELS, EMBEDDINGS))
    assert float(loss(LABELS, EMBEDDINGS, training=False)) == alone < value


def test_all_centres_of_the_virtual_class_are_the_sample():
    one, three = (
        with_weights(
            VirtualClass(SoftTripleLoss(4, k, dtype="float64"), dtype="float64"),
            np.repeat(PROXIES, k, axis=0),
        )
        for k in (1, 3)
    )
    # Three equal centres are as good as one.
    assert float(three(LABELS, EMBEDDINGS)) == pytest.approx(float(one(LABELS, EMBEDDINGS)))
