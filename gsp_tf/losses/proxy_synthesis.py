"""Proxy synthesis (Gu, Ko, Kim, AAAI 2021)."""

import math
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_positive, check_share, checked_seed
from gsp_tf._typing import Tensor
from gsp_tf.losses._proxy import ProxyLoss, ProxyWrapper
from gsp_tf.losses._rows import first_equals
from gsp_tf.ops import l2_normalize


class ProxySynthesis(ProxyWrapper):
    """Proxy loss with synthetic classes: mixtures of two samples and of their proxies.

    `x̃ = λ x̂_i + (1 - λ) x̂_j` and `p̃ = λ p̂_i + (1 - λ) p̂_j`, scaled to unit length, are a
    sample and the proxy of a synthetic class. Each batch has one `λ ~ Beta(α, α)`. "Proxy
    Synthesis: Learning with Synthetic Classes for Deep Metric Learning" (AAAI 2021), eqs. 4 and 5.

    Sample i is mixed with the next sample j of another class in the batch. Samples with the same
    two classes share a synthetic class. If all neighbours are of different classes, this is the
    authors' roll by one. In a batch with several samples per class, their roll would mix samples of
    one class. A batch of one class has no synthetic class: its mixtures stay in the class.

    Args:
        proxy_loss: any proxy loss.
        alpha: α > 0 of the Beta distribution.
        ratio: μ in [0, 1], number of synthetic samples relative to the batch size.
        seed: integer seed of λ (XLA draws another sequence); `None` for a new sequence each time.

    Weight: the `proxies` of the proxy loss.

    Call: `loss(labels, embeddings, training=True)`.

    Example:
        >>> from gsp_tf.losses import ProxyNCALoss
        >>> loss = ProxySynthesis(ProxyNCALoss(num_classes=2), seed=0)
        >>> float(loss([0, 1], [[1.0, 0.0], [0.0, 1.0]])) > 0
        True
    """

    unscheduled = ("ratio",)

    def __init__(
        self,
        proxy_loss: ProxyLoss,
        alpha: float = 0.4,
        ratio: float = 1.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(proxy_loss, **kwargs)
        check_positive(alpha=alpha)
        check_share(ratio=ratio)
        self.alpha = alpha
        self.ratio = ratio
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(checked_seed(seed))

    def augmented_loss(self, labels: Tensor, embeddings: Tensor) -> Tensor:
        rate = _symmetric_beta(self.alpha, self.seed_generator)
        return self.mixed_loss(labels, embeddings, ops.cast(rate, self.compute_dtype))

    def mixed_loss(self, labels: Tensor, embeddings: Tensor, rate: float | Tensor) -> Tensor:
        """Scalar loss of int32 labels, with synthetic classes of mixing rate λ in [0, 1]."""
        k = self.proxy_loss.proxies_per_class
        samples = l2_normalize(embeddings)
        proxies = ops.reshape(l2_normalize(self.proxies), (self.num_classes, k, -1))
        partners, synthetic_labels, is_class = _synthetic_classes(labels, self.num_classes)
        own, other = (ops.take(proxies, x, axis=0) for x in (labels, ops.take(labels, partners)))
        mixed_samples = l2_normalize(
            rate * samples + (1.0 - rate) * ops.take(samples, partners, axis=0)
        )
        mixed_proxies = l2_normalize(rate * own + (1.0 - rate) * other)
        kept = _count(self.ratio, ops.shape(labels)[0])
        samples = ops.concatenate([samples, mixed_samples[:kept]])
        proxies = ops.concatenate([proxies, mixed_proxies[:kept]])
        similarities = ops.matmul(
            samples, ops.transpose(ops.reshape(proxies, (-1, proxies.shape[-1])))
        )
        return self.proxy_loss.similarity_loss(
            ops.concatenate([labels, synthetic_labels[:kept]]),
            similarities,
            ops.concatenate([ops.ones((self.num_classes,), "bool"), is_class[:kept]]),
        )


def _synthetic_classes(labels, num_classes):
    """Partners of samples, labels of mixtures, and whether C + i is a class; `(B,)` each."""
    # The partner is the next sample of another class, cyclically. The label of a mixture is C plus
    # the index of the first sample with the same two classes, or the sample's own label if there is
    # only one class.
    labels = ops.convert_to_tensor(labels)
    batch_size = ops.shape(labels)[0]
    index = ops.arange(batch_size)
    differ = labels[:, None] != labels[None, :]
    steps = (index[None, :] - index[:, None]) % batch_size
    partners = ops.argmin(ops.where(differ, steps, batch_size), axis=1)
    has_partner = ops.any(differ, axis=1)
    partner_labels = ops.take(labels, partners)
    same = ops.logical_and(
        labels[:, None] == labels[None, :], partner_labels[:, None] == partner_labels[None, :]
    )
    first, is_first = first_equals(same)
    synthetic = num_classes + ops.cast(first, labels.dtype)
    is_class = ops.logical_and(is_first, has_partner)
    return partners, ops.where(has_partner, synthetic, labels), is_class


def _symmetric_beta(alpha, seed):
    """Draw a number from Beta(α, α) with operations that XLA supports."""
    # λ = (1 + c sqrt((1 - q) / (q + (1 - q) c²))) / 2 with q = U^(1/α) and c = cos(2πV), where
    # U and V are uniform in [0, 1]. Then c sqrt(2α (1/q - 1)) has Student's t distribution of 2α
    # degrees of freedom ("Polar Generation of Random Variates with the t-Distribution", Bailey
    # 1994).
    uniform = keras.random.uniform((2,), seed=seed)
    q, cosine = uniform[0] ** (1.0 / alpha), ops.cos(2.0 * math.pi * uniform[1])
    balance = cosine * ops.sqrt((1.0 - q) / (q + (1.0 - q) * ops.square(cosine)))
    return 0.5 + 0.5 * ops.clip(balance, -1.0, 1.0)


def _count(ratio, batch_size):
    if isinstance(batch_size, int):
        return round(ratio * batch_size)
    return ops.cast(ops.round(ratio * ops.cast(batch_size, "float32")), "int32")
