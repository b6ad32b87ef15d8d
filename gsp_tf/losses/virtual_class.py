"""Virtual class (Chen, Deng, Shen, NeurIPS 2018)."""

from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._proxy import ProxyWrapper
from gsp_tf.ops import l2_normalize


class VirtualClass(ProxyWrapper):
    """Proxy loss with one more class, which has the sample itself as its proxy.

    The virtual proxy of sample i is `w_i = ||p_y|| x_i / ||x_i||`, the hardest possible negative.
    With unit vectors its similarity to the sample is 1. "Virtual Class Enhanced Discriminative
    Embedding Learning" (NeurIPS 2018), eq. 3. It is meant for softmax-like losses; it only adds a
    constant to a `ProxyAnchorLoss`.

    Args:
        proxy_loss: any proxy loss.

    Weight: the `proxies` of the proxy loss.

    Call: `loss(labels, embeddings, training=True)`.

    Example:
        >>> from gsp_tf.losses import NormalizedSoftmaxLoss
        >>> loss = VirtualClass(NormalizedSoftmaxLoss(num_classes=1, temperature=1.0))
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0]])
        >>> round(float(loss([0], [[1.0, 0.0]])), 4)
        0.6931
    """

    def augmented_loss(self, labels: Tensor, embeddings: Tensor) -> Tensor:
        similarities = self.proxy_loss.similarities(embeddings, self.proxies)
        virtual = ops.sum(ops.square(l2_normalize(embeddings)), axis=1, keepdims=True)
        virtual = ops.repeat(virtual, self.proxy_loss.proxies_per_class, axis=1)
        return self.proxy_loss.similarity_loss(
            labels, ops.concatenate([similarities, virtual], axis=1)
        )
