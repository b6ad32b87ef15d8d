import numpy as np
import pytest
from loss_examples import with_weights

from gsp_tf.losses import HybridLoss, MultiSimilarityLoss, ProxyAnchorLoss


@pytest.mark.parametrize(
    ("arguments", "factor"),
    [({}, 0.03), ({"proxy_weight": 0.0}, 0.0), ({"proxy_weight": 0.4}, 0.4)],
)
def test_is_multi_similarity_plus_weighted_proxy_anchor(arguments, factor):
    rng = np.random.default_rng(0)
    labels, embeddings, proxies = rng.integers(0, 4, 9), *rng.normal(size=(2, 9, 3))
    arguments |= {"alpha": 3.0, "beta": 20.0, "base": 0.4, "margin": 0.2, "proxy_alpha": 16.0}
    hybrid, anchor = (
        float(with_weights(loss, proxies[:4])(labels, embeddings))
        for loss in (
            HybridLoss(4, **arguments, dtype="float64"),
            ProxyAnchorLoss(4, 0.2, 16.0, dtype="float64"),
        )
    )
    pairs = float(MultiSimilarityLoss(3.0, 20.0, 0.4)(labels, embeddings))
    assert hybrid == pytest.approx(pairs + factor * anchor, rel=1e-9)
