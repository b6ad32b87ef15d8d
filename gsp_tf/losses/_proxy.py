"""Bases of the losses between samples and learned class proxies."""

import operator
from typing import Any

from keras import ops

from gsp_tf._backend import rounded
from gsp_tf._typing import Tensor
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses.distances import Distance, DistanceName, as_distance
from gsp_tf.losses.reduction import Reduction, ReductionName, as_reduction
from gsp_tf.ops import l2_normalize


class ProxyLayer(LossLayer):
    """Base of the losses with `proxies (num_classes * k, D)`; k is `proxies_per_class`."""

    unscheduled = ("distance", "reduction")
    proxies_per_class = 1

    def __init__(
        self, num_classes: int, reduction: Reduction | ReductionName | None = None, **kwargs: Any
    ) -> None:
        super().__init__(num_classes, **kwargs)
        self.reduction = reduction
        self.reducer = as_reduction(reduction, "mean")
        self.reducer.check_classes(num_classes)

    def build(self, labels_shape: tuple, embeddings_shape: tuple) -> None:
        self.proxies = self.add_weight(
            name="proxies",
            shape=(self.num_classes * self.proxies_per_class, embeddings_shape[-1]),
            initializer="he_normal",
        )

    def similarities(self, embeddings: Tensor, proxies: Tensor) -> Tensor:
        """Cosine similarities `(B, C * k)` of embeddings `(B, d)` to proxies `(C * k, d)`."""
        return ops.matmul(l2_normalize(embeddings), ops.transpose(l2_normalize(proxies)))

    def reduced_samples(self, labels: Tensor, losses: Tensor) -> Tensor:
        """The losses `(B,)` of samples with labels `(B,)` as the reduction says."""
        return self.reducer([(losses, ops.ones_like(losses))], labels)


class ProxyLoss(ProxyLayer):
    """Base of the losses on cosine similarities between samples and learned class proxies.

    A subclass implements `sample_losses(labels, similarities, is_class=None) -> (B,)`, or
    `similarity_loss(labels, similarities, is_class=None) -> scalar`. The wrappers `ProxySynthesis`
    and `VirtualClass` call it with more classes than are learned. A subclass with k proxies per
    class sets `proxies_per_class`, and one with a term of the proxies alone implements
    `regularization(proxies)`. Every constructor argument is an attribute of the same name; these
    form the config. A subclass names those of the arguments below that its formula leaves open, and
    passes its `**kwargs` on.

    Call: `loss(labels, embeddings)` takes integer labels `(B,)` or `(B, 1)` and embeddings
    `(B, D)`. It returns a scalar of the dtype of the loss. It raises ValueError for other types and
    shapes, and for labels that are not classes.

    Args:
        num_classes: number of classes; labels are 0 to num_classes - 1.
        distance: as in `PairLoss`. The similarities that a formula gets are then 1 minus the
            distances of the normalised samples and proxies.
        reduction: as in `PairLoss`, for the losses of the samples.
        kwargs: an `embedding_regularizer` of the embeddings as they come, a `proxies_regularizer`,
            and arguments of `keras.layers.Layer`, such as `name` and `dtype`, float32 by default.

    Weight: `proxies (num_classes * k, D)`, class by class.

    Example:
        >>> class MeanOwnDistance(ProxyLoss):
        ...     def similarity_loss(self, labels, similarities, is_class=None):
        ...         return ops.mean(1.0 - ops.take_along_axis(similarities, labels[:, None], 1))
        >>> loss = MeanOwnDistance(num_classes=2)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[3.0, 0.0], [0.0, 4.0]])
        >>> float(loss([1], [[0.6, 0.8]]))
        0.2
    """

    def __init__(
        self,
        num_classes: int,
        distance: Distance | DistanceName | None = None,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, reduction, **kwargs)
        self.distance = distance
        self._distance = as_distance(distance)

    def call(self, labels, embeddings):
        return self.proxies_loss(labels, embeddings, self.proxies)

    def proxies_loss(self, labels: Tensor, embeddings: Tensor, proxies: Tensor) -> Tensor:
        """Loss with other proxies than the learned ones, a scalar.

        Args:
            labels: int32 tensor `(B,)`, below C.
            embeddings: float tensor `(B, d)`.
            proxies: float tensor `(C * k, d)`.
        """
        similarities = self.similarities(embeddings, proxies)
        return self.similarity_loss(labels, similarities) + self.regularization(proxies)

    def similarities(self, embeddings: Tensor, proxies: Tensor) -> Tensor:
        """As in `ProxyLayer`, or 1 minus the distance that the loss is given."""
        if self._distance is None:
            return super().similarities(embeddings, proxies)
        samples, proxies = l2_normalize(embeddings), l2_normalize(proxies)
        return 1.0 - self._distance(samples, proxies)

    def similarity_loss(
        self, labels: Tensor, similarities: Tensor, is_class: Tensor | None = None
    ) -> Tensor:
        """Loss, a scalar unless the reduction is "none".

        Args:
            labels: int32 tensor `(B,)`, below C.
            similarities: float tensor `(B, C * k)`, cosine similarities to the proxies.
            is_class: boolean tensor `(C,)`, False for classes to leave out; `None` keeps all.
        """
        return self.reduced_samples(labels, self.sample_losses(labels, similarities, is_class))

    def sample_losses(
        self, labels: Tensor, similarities: Tensor, is_class: Tensor | None = None
    ) -> Tensor:
        """Losses `(B,)` of the samples; the arguments are those of `similarity_loss`."""
        raise NotImplementedError

    def regularization(self, proxies: Tensor) -> Tensor | float:
        """Term of the loss that depends on the proxies `(C * k, d)` alone; 0 for most losses."""
        return 0.0


class SoftmaxProxyLoss(ProxyLoss):
    """Base of the proxy losses that are the softmax cross-entropy of `logits`."""

    def sample_losses(
        self, labels: Tensor, similarities: Tensor, is_class: Tensor | None = None
    ) -> Tensor:
        return cross_entropies(labels, self.logits(labels, similarities), is_class)

    def logits(self, labels: Tensor, similarities: Tensor) -> Tensor:
        """Logits `(B, C)` of the classes, of labels `(B,)` and similarities `(B, C * k)`."""
        raise NotImplementedError


def cross_entropies(labels: Tensor, logits: Tensor, is_class: Tensor | None = None) -> Tensor:
    """Softmax cross-entropies `(B,)` of logits `(B, C)` over the classes of `is_class`, or all."""
    if is_class is not None:
        logits = ops.where(is_class, logits, -1e9)
    logits = rounded(logits)
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return ops.cast(losses, logits.dtype)  # Keras makes float64 of float32 where JAX has it


def own_class_mask(labels: Tensor, num_classes: int) -> Tensor:
    """Boolean tensor `(B, num_classes)`, True at the class of each sample."""
    return ops.equal(ops.convert_to_tensor(labels)[:, None], ops.arange(num_classes)[None, :])


class ProxyWrapper(LossLayer):
    """Base of the losses around a proxy loss, which differ from it in training alone."""

    # Whether its similarities are those of the proxy loss, and not cosines of its own.
    takes_distance = False
    takes, takes_text = ProxyLoss, "a proxy loss such as ProxyNCALoss(num_classes)"

    def __init__(self, proxy_loss: ProxyLoss, **kwargs: Any) -> None:
        super().__init__(inner=[proxy_loss], **kwargs)
        if not isinstance(proxy_loss, self.takes):
            raise ValueError(
                f"{type(self).__name__} takes {self.takes_text}, received {proxy_loss!r}."
            )
        if proxy_loss.distance is not None and not self.takes_distance:
            raise ValueError(
                f"{type(self).__name__} mixes unit vectors, and takes a proxy loss of cosine "
                f"similarities, received {type(proxy_loss).__name__}"
                f"(distance={proxy_loss.distance!r})."
            )
        self.proxy_loss = proxy_loss

    num_classes = property(operator.attrgetter("proxy_loss.num_classes"))
    proxies = property(operator.attrgetter("proxy_loss.proxies"))

    def call(self, labels, embeddings, training=True):
        if not training:
            return self.proxy_loss(labels, embeddings)
        regularization = self.proxy_loss.regularization(self.proxies)
        return self.augmented_loss(labels, embeddings) + regularization

    def augmented_loss(self, labels: Tensor, embeddings: Tensor) -> Tensor:
        """Scalar loss of labels `(B,)` and embeddings `(B, D)` in training, not regularised."""
        raise NotImplementedError


class SoftmaxWrapper(ProxyWrapper):
    """Base of the wrappers of the losses that are a cross-entropy of logits."""

    takes_distance = True
    takes = SoftmaxProxyLoss
    takes_text = "a loss that is a cross-entropy of logits, such as ArcFaceLoss(num_classes)"
