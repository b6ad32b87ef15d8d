import numpy as np
import pytest
from gradients import value_and_gradients
from loss_examples import with_weights

from gsp_tf.losses import HybridLoss, MultiSimilarityLoss, ProxyAnchorLoss


@pytest.mark.parametrize("proxy_weight", [None, 0.0, 0.4])
def test_is_multi_similarity_plus_weighted_proxy_anchor(proxy_weight):
    rng = np.random.default_rng(0)
    labels, embeddings, proxies = rng.integers(0, 4, 9), *rng.normal(size=(2, 9, 3))
    proxies = proxies[:4]
    arguments = {} if proxy_weight is None else {"proxy_weight": proxy_weight}
    loss = HybridLoss(
        4,
        alpha=3.0,
        beta=20.0,
        base=0.4,
        margin=0.2,
        proxy_alpha=16.0,
        dtype="float64",
        **arguments,
    )
    value, gradient, proxies_gradient = value_and_gradients(
        with_weights(loss, proxies), labels, embeddings
    )
    proxy_anchor = with_weights(ProxyAnchorLoss(4, 0.2, 16.0, dtype="float64"), proxies)
    anchor, anchor_gradient, anchor_proxies = value_and_gradients(proxy_anchor, labels, embeddings)
    pairs = float(MultiSimilarityLoss(3.0, 20.0, 0.4)(labels, embeddings))
    factor = 0.03 if proxy_weight is None else proxy_weight
    assert value == pytest.approx(pairs + factor * anchor, rel=1e-9)
    np.testing.assert_allclose(proxies_gradient, factor * anchor_proxies, rtol=1e-9)
    assert (np.abs(gradient - factor * anchor_gradient).max(axis=1) > 1e-6).all()
