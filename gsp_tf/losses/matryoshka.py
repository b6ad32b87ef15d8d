"""Losses over prefixes of the embedding (Kusupati et al., NeurIPS 2022)."""

import operator
from collections.abc import Sequence
from typing import Any

from keras import ops

from gsp_tf._arguments import integers
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses._pair_loss import PairLoss, is_pair_loss
from gsp_tf.losses._pairs import Pairs


class MatryoshkaLoss(LossLayer):
    """Weighted sum of a loss over prefixes of the embedding, so that each can be used by itself.

    `Σ_m c_m L(labels, z_{1:m})` over the dimensions m of the prefixes. "Matryoshka Representation
    Learning" (Kusupati et al., NeurIPS 2022), eq. 1, for classifiers; c_m is 1 there. A proxy loss
    has one set of proxies, and each prefix is compared with the same prefix of them. This is the
    weight tying `W^(m) = W_{1:m}` of the paper's efficient variant (MRL-E). The rest is ours: the
    loss may be any pair loss or proxy loss, and a loss that normalises embeddings normalises each
    prefix again, as a search in prefixes does.

    Around a pair loss it has no weights and is a pair loss itself: `CrossBatchMemory`,
    `ProxyPairsLoss` and CCP take it. A miner chooses the pairs of each prefix.

    Args:
        loss: any pair loss, or a loss with proxies: a proxy loss, `HybridLoss` or `ProxyPairsLoss`.
        dims: increasing dimensions m of the prefixes; the last is that of the embedding.
        weights: c_m, one per prefix, not negative; `None` for 1 each.

    Weights: those of the loss.

    Call: `loss(labels, embeddings)` takes labels `(B,)` or `(B, 1)` and embeddings `(B, dims[-1])`,
    and returns a scalar.

    Example:
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> loss = MatryoshkaLoss(ContrastiveLoss(negative_margin=2.0), dims=(1, 2), weights=(3, 1))
        >>> float(loss([0, 1], [[1.0, 0.0], [1.0, 0.0]]))  # 3 · 2 + 1 · 2
        8.0
    """

    kept_as = {"weights": "prefix_weights"}  # `weights` of a layer are its variables

    def __init__(
        self,
        loss: PairLoss | LossLayer,
        dims: Sequence[int],
        weights: Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        has_proxies = isinstance(loss, LossLayer) and hasattr(loss, "proxies_loss")
        if not isinstance(loss, PairLoss) and not has_proxies:
            raise ValueError(
                "MatryoshkaLoss takes a pair loss such as ContrastiveLoss() or a loss with proxies "
                f"such as ProxyAnchorLoss(num_classes), received {loss!r}."
            )
        super().__init__(loss.num_classes, inner=[loss], **kwargs)
        dims = tuple(integers(list(dims), "dims").tolist())
        if not dims or dims[0] < 1 or list(dims) != sorted(set(dims)):
            raise ValueError(f"dims must be increasing and at least 1, received {dims}.")
        if weights is not None and (
            len(weights) != len(dims) or not all(weight >= 0 for weight in weights)
        ):
            raise ValueError(
                f"weights must be one number per dimension, {len(dims)}, and not negative; "
                f"received {tuple(weights)}."
            )
        self.loss = loss
        self.dims = dims
        self.prefix_weights = None if weights is None else tuple(map(float, weights))
        self.seed_generator = getattr(loss, "seed_generator", None)

    # As in the loss.
    normalize, miner, reducer, relation, relation_threshold, sums_over_references, proxies = (
        property(operator.attrgetter(f"loss.{name}"))
        for name in (
            "normalize",
            "miner",
            "reducer",
            "relation",
            "relation_threshold",
            "sums_over_references",
            "proxies",
        )
    )
    pairwise = PairLoss.pairwise
    pairs = PairLoss.pairs
    _prepare = PairLoss._prepare

    def build(self, labels_shape, embeddings_shape):
        self._check(embeddings_shape[-1])
        super().build(labels_shape, embeddings_shape)

    def call(self, labels, embeddings):
        if is_pair_loss(self):
            return self.mined_loss(
                self.pairs(embeddings, embeddings, labels, labels, exclude_self=True)
            )
        proxies = ops.convert_to_tensor(self.proxies)
        return self._sum(
            lambda dim: self.loss.proxies_loss(labels, embeddings[:, :dim], proxies[:, :dim])
        )

    def mined_loss(self, pairs: Pairs):
        """Scalar loss of pairs, as the miner of a pair loss weighs them for each prefix."""
        self._check(pairs.anchors.shape[-1])
        return self._sum(lambda dim: self.loss.mined_loss(pairs.prefix(dim, self.normalize)))

    def _sum(self, loss_of):
        """The weighted sum of a loss of the dimension of each prefix."""
        weights = self.prefix_weights or (1.0,) * len(self.dims)
        return sum(weight * loss_of(dim) for dim, weight in zip(self.dims, weights, strict=True))

    def _check(self, dim):
        if dim != self.dims[-1]:
            raise ValueError(
                f"The last of dims must be the dimension of the embeddings, {dim}; received "
                f"dims={self.dims}."
            )
