"""Anti-collapse loss (Jiang et al., IEEE Transactions on Multimedia 2024)."""

from typing import Any, Literal

from keras import ops

from gsp_tf._arguments import check_choice, check_positive
from gsp_tf._typing import Tensor
from gsp_tf.losses._proxy import ProxyLoss, ProxyWrapper
from gsp_tf.losses._rows import first_equals
from gsp_tf.ops import l2_normalize

Source = Literal["batch_proxies", "all_proxies", "samples"]


class AntiCollapseLoss(ProxyWrapper):
    """Adds to a proxy loss a term that falls as proxies or samples fill the space.

    `ℓ + w exp(-γ R)` with the coding rate `R = (1/2) log det(I + (m / (D ε)) P Pᵀ)` of the unit
    rows of P, the m proxies of the classes of the batch or all m proxies. "Anti-Collapse Loss for
    Deep Metric Learning Based on Coding Rate Metric" (2024). For samples it is `R = (1/2) log det(I
    + (D / (m ε)) P Pᵀ)`. Factors and exponential are those of the authors' program. In evaluation
    the loss is ℓ.

    Args:
        proxy_loss: ℓ, any proxy loss, such as `ProxyAnchorLoss(num_classes)`.
        weight: w.
        gamma: γ.
        epsilon: ε > 0, the precision of the code.
        source: "batch_proxies", "all_proxies" or "samples": the rows of P.

    Weight: `proxies` of the proxy loss.

    Example:
        >>> from gsp_tf.losses import NormalizedSoftmaxLoss
        >>> loss = AntiCollapseLoss(NormalizedSoftmaxLoss(2, 1.0))
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
        >>> round(float(loss([0, 1], [[1.0, 0.0], [0.0, 1.0]])), 3)
        0.647
    """

    takes_distance = True

    def __init__(
        self,
        proxy_loss: ProxyLoss,
        weight: float = 1.0,
        gamma: float = 1.0,
        epsilon: float = 0.5,
        source: Source = "batch_proxies",
        **kwargs: Any,
    ) -> None:
        super().__init__(proxy_loss, **kwargs)
        check_positive(epsilon=epsilon)
        check_choice("source", source, Source)
        self.weight = weight
        self.gamma = gamma
        self.epsilon = epsilon
        self.source = source

    def augmented_loss(self, labels: Tensor, embeddings: Tensor) -> Tensor:
        similarities = self.proxy_loss.similarities(embeddings, self.proxies)
        loss = self.proxy_loss.similarity_loss(labels, similarities)
        rate = self.coding_rate(labels, embeddings)
        return loss + self.weight * ops.exp(-self.gamma * rate)

    def coding_rate(self, labels: Tensor, embeddings: Tensor) -> Tensor:
        """R of a batch, a scalar, in nats."""
        rows = embeddings if self.source == "samples" else ops.convert_to_tensor(self.proxies)
        rows = l2_normalize(rows)
        dim = rows.shape[1]
        size = ops.cast(ops.shape(rows)[0], rows.dtype)
        if self.source == "batch_proxies":
            k = self.proxy_loss.proxies_per_class
            # A class that several samples have counts once; rows of zeros do not change R.
            is_first = first_equals(labels[:, None] == labels[None, :])[1]
            is_first = ops.cast(is_first, rows.dtype)
            rows = ops.take(ops.reshape(rows, (-1, k, dim)), labels, axis=0)
            rows = ops.reshape(rows * is_first[:, None, None], (-1, dim))
            size = k * ops.sum(is_first)
        factor = dim / size if self.source == "samples" else size / dim
        wide = rows.shape[0] is None or rows.shape[0] > dim
        gram = (
            ops.matmul(ops.transpose(rows), rows) if wide else ops.matmul(rows, ops.transpose(rows))
        )
        identity = ops.eye(gram.shape[0], dtype=gram.dtype)
        matrix = identity + factor / self.epsilon * gram
        # Some backends stop at a matrix that is not finite. The loss is NaN then anyway.
        matrix = ops.where(ops.all(ops.isfinite(matrix)), matrix, identity)
        return ops.sum(ops.log(ops.diagonal(ops.cholesky(matrix))))
