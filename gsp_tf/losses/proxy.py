"""What every loss between samples and proxies shares."""

from keras import ops

from gsp_tf.losses.weighted import WeightedLoss
from gsp_tf.ops import l2_normalize


class ProxyLoss(WeightedLoss):
    """Base of the losses on cosine similarities of samples and learned proxies of the classes.

    A subclass implements `similarity_loss(labels, similarities, is_class=None) -> scalar`. The
    wrappers `ProxySynthesis` and `VirtualClass` call it with more classes than are learned. A
    subclass with k proxies for each class sets `proxies_per_class`.

    Args:
        num_classes: number of classes; labels are 0 to num_classes - 1.

    Weight: `proxies (num_classes * k, D)`, class by class.

    Example:
        >>> class MeanOwnDistance(ProxyLoss):
        ...     def similarity_loss(self, labels, similarities, is_class=None):
        ...         own = of_own_class(labels, self.num_classes)
        ...         return ops.mean(1.0 - similarities[own])
        >>> import numpy as np
        >>> loss = MeanOwnDistance(num_classes=2)
        >>> loss.build((None,), (None, 2))
        >>> _ = loss.proxies.assign([[3.0, 0.0], [0.0, 4.0]])
        >>> float(loss(np.array([1]), np.array([[0.6, 0.8]], "float32")))
        0.2
    """

    proxies_per_class = 1

    def build(self, labels_shape, embeddings_shape):
        self.proxies = self.add_weight(
            name="proxies",
            shape=(self.num_classes * self.proxies_per_class, embeddings_shape[-1]),
            initializer="he_normal",
        )

    def call(self, labels, embeddings):
        similarities = ops.matmul(
            l2_normalize(embeddings), ops.transpose(l2_normalize(self.proxies))
        )
        return self.similarity_loss(labels, similarities)

    def similarity_loss(self, labels, similarities, is_class=None):
        """Loss, a scalar.

        Args:
            labels: int32 tensor `(B,)`, below C.
            similarities: float tensor `(B, C * k)`, cosine similarities to the proxies.
            is_class: boolean tensor `(C,)`, False for a class to leave out; `None` for none.
        """
        raise NotImplementedError


def cross_entropy(labels, logits, is_class=None):
    """Mean softmax cross-entropy over the classes that are not left out.

    Args:
        labels: int32 tensor `(B,)`, below C.
        logits: float tensor `(B, C)`.
        is_class: boolean tensor `(C,)`, False for a class to leave out; `None` for none.

    Returns:
        scalar.

    Example:
        >>> round(float(cross_entropy([0], [[0.0, 0.0, 9.0]], [True, True, False])), 4)
        0.6931
    """
    if is_class is not None:
        logits = ops.where(is_class, logits, -1e9)
    return ops.mean(ops.sparse_categorical_crossentropy(labels, logits, from_logits=True))


def of_own_class(labels, num_classes):
    """Which class is a sample's own.

    Args:
        labels: int32 tensor `(B,)`.
        num_classes: C.

    Returns:
        boolean tensor `(B, C)`.

    Example:
        >>> of_own_class([1, 0], 2).numpy().tolist()
        [[False, True], [True, False]]
    """
    return ops.equal(ops.convert_to_tensor(labels)[:, None], ops.arange(num_classes)[None, :])
