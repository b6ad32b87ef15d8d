"""What every loss over pairs of embeddings shares."""

import math

import keras
from keras import ops

from gsp_tf.ops.distances import pairwise_distances
from gsp_tf.ops.normalization import l2_normalize
from gsp_tf.ops.precision import at_least_float32


class PairLoss(keras.losses.Loss):
    """Base of the weightless losses over pairs: distances, which pairs, and what a pair costs.

    A subclass implements `pair_loss(distances, positives, negatives) -> scalar`. The losses work in
    `compile(loss=...)` of any Keras model whose output is the embedding.

    Args:
        normalize: L2-normalise the embeddings first.
    """

    def __init__(self, normalize=True, name=None):
        super().__init__(name=name)
        self.normalize = normalize

    def __call__(self, labels, embeddings, sample_weight=None):
        """Loss over all pairs of a batch, a sample never paired with itself.

        Args:
            labels: integer tensor `(B,)` or `(B, 1)`.
            embeddings: float tensor `(B, D)`.
            sample_weight: must be `None`, for a pair has no sample's weight.

        Returns:
            float32 scalar (float64 for float64 embeddings).

        Raises:
            ValueError: if `sample_weight` is given or the shapes do not fit together.
        """
        if sample_weight is not None:
            raise ValueError(
                f"{type(self).__name__} is a loss over pairs and takes no sample_weight."
            )
        return self.pairwise(labels, embeddings, labels, embeddings, exclude_self=True)

    def pairwise(self, anchor_labels, anchors, reference_labels, references, exclude_self=False):
        """Loss over all pairs of an anchor and a reference.

        Args:
            anchor_labels: integer tensor `(A,)` or `(A, 1)`.
            anchors: float tensor `(A, D)`.
            reference_labels: integer tensor `(R,)` or `(R, 1)`.
            references: float tensor `(R, D)`.
            exclude_self: leave out pairs of equal index; the references then begin with the
                anchors.

        Returns:
            float32 scalar (float64 for float64 embeddings).

        Raises:
            ValueError: if the shapes do not fit together.

        Example:
            >>> import numpy as np
            >>> from gsp_tf.losses import ContrastiveLoss
            >>> anchors, references = np.eye(2), np.array([[0.6, 0.8]])
            >>> float(ContrastiveLoss().pairwise([0, 1], anchors, [0], references))
            0.89
        """
        with keras.name_scope(self.name):
            anchors, references = at_least_float32(anchors, references)
            check_labels(anchor_labels, anchors)
            check_labels(reference_labels, references)
            if self.normalize:
                anchors, references = l2_normalize(anchors), l2_normalize(references)
            anchor_labels = ops.cast(ops.reshape(anchor_labels, (-1, 1)), "int64")
            reference_labels = ops.cast(ops.reshape(reference_labels, (1, -1)), "int64")
            positives = ops.equal(anchor_labels, reference_labels)
            negatives = ops.logical_not(positives)
            if exclude_self:
                others = ops.not_equal(
                    ops.arange(ops.shape(anchors)[0])[:, None],
                    ops.arange(ops.shape(references)[0])[None, :],
                )
                positives = ops.logical_and(positives, others)
            return self.pair_loss(pairwise_distances(anchors, references), positives, negatives)

    def pair_loss(self, distances, positives, negatives):
        """Loss from distances `(A, R)` and the boolean masks `(A, R)` of the pairs that count."""
        raise NotImplementedError

    def get_config(self):
        return {"name": self.name, "normalize": self.normalize}


def check_labels(labels, embeddings):
    """Refuse embeddings that are no `(B, D)`, and labels that are not one for each of them.

    Args:
        labels: tensor.
        embeddings: tensor.

    Raises:
        ValueError: with both shapes, as far as they are known.

    Example:
        >>> import numpy as np
        >>> check_labels(np.zeros((3, 1)), np.zeros((3, 8)))
    """
    labels_shape, embeddings_shape = (
        None if getattr(x.shape, "rank", 0) is None else tuple(x.shape)
        for x in (ops.convert_to_tensor(labels), embeddings)
    )
    if embeddings_shape is None:
        return
    known = labels_shape is not None and None not in (*labels_shape, embeddings_shape[0])
    if len(embeddings_shape) != 2 or (known and math.prod(labels_shape) != embeddings_shape[0]):
        raise ValueError(
            "A loss takes integer labels (B,) or (B, 1) and embeddings (B, D), received labels of "
            f"shape {labels_shape} and embeddings of shape {embeddings_shape}."
        )


def mean_of_nonzero(terms, mask):
    """Mean of the terms that are masked in and not 0; 0 if there is none, NaN if one is NaN.

    Args:
        terms: float tensor of non-negative terms.
        mask: boolean tensor of the same shape.

    Returns:
        scalar.

    Example:
        >>> import numpy as np
        >>> terms = np.array([1.0, 3.0, 0.0, 9.0], "float32")
        >>> float(mean_of_nonzero(terms, np.array([True, True, True, False])))
        2.0
    """
    counted = ops.logical_and(mask, ops.not_equal(terms, 0))
    total = ops.sum(ops.where(counted, terms, 0.0))
    return total / ops.maximum(ops.sum(ops.cast(counted, total.dtype)), 1.0)
