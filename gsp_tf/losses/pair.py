"""What every loss over pairs of embeddings shares."""

import keras
from keras import ops

from gsp_tf.losses.inputs import checked, nan_unless
from gsp_tf.losses.miners.miner import Miner
from gsp_tf.losses.pairs import Pairs
from gsp_tf.ops import at_least_float32, l2_normalize


class PairLoss(keras.losses.Loss):
    """Base of the weightless losses over pairs: which pairs, how they are mined, what they cost.

    A subclass implements `pairs_loss(pairs) -> scalar` from the distances or similarities of
    `Pairs` and the weights of its positive and negative pairs. The losses work in
    `compile(loss=...)` of any Keras model whose output is the embedding.

    Args:
        normalize: L2-normalise the embeddings first.
        miner: chooses or weighs the pairs, such as `MultiSimilarityMiner()`; `None` takes all.
        name: name of the loss.

    Attributes:
        sums_over_references: whether the loss is a sum of what each reference adds, so that it may
            be taken over some of the references at a time; a subclass may say so.

    Example:
        >>> import numpy as np
        >>> class MeanPositiveDistance(PairLoss):
        ...     def pairs_loss(self, pairs):
        ...         return ops.sum(pairs.positives * pairs.distances) / ops.sum(pairs.positives)
        >>> loss = MeanPositiveDistance(normalize=False)
        >>> float(loss([0, 0, 1], np.array([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]])))
        5.0
    """

    sums_over_references = False

    def __init__(
        self, normalize: bool = True, miner: Miner | None = None, name: str | None = None
    ) -> None:
        super().__init__(name=name)
        miner = keras.saving.deserialize_keras_object(miner) if isinstance(miner, dict) else miner
        if miner is not None and not isinstance(miner, Miner):
            raise ValueError(
                f"miner must be a miner such as MultiSimilarityMiner(), received {miner!r}."
            )
        self.normalize = normalize
        self.miner = miner

    @property
    def seed_generator(self):
        """The `keras.random.SeedGenerator` of a miner that draws, else `None`."""
        return getattr(self.miner, "seed_generator", None)

    def __call__(self, labels, embeddings, sample_weight=None):
        """Loss over all pairs of a batch, a sample never paired with itself.

        Args:
            labels: integer tensor `(B,)` or `(B, 1)`.
            embeddings: float tensor `(B, D)`.
            sample_weight: must be `None`, for a pair has no sample's weight.

        Returns:
            float32 scalar (float64 for float64 embeddings).

        Raises:
            ValueError: if `sample_weight` is given, or as `gsp_tf.losses.inputs.checked`.
        """
        if sample_weight is not None:
            raise ValueError(
                f"{type(self).__name__} is a loss over pairs and takes no sample_weight."
            )
        with keras.name_scope(self.name):
            labels, embeddings, is_valid = self._prepare(labels, embeddings)
            loss = self.mined_loss(Pairs(embeddings, embeddings, labels, labels, exclude_self=True))
            return nan_unless(is_valid, loss)

    def pairwise(
        self,
        anchor_labels,
        anchors,
        reference_labels,
        references,
        exclude_self=False,
        mask=None,
    ):
        """Loss over all pairs of an anchor and a reference.

        Args:
            anchor_labels: integer tensor `(A,)` or `(A, 1)`.
            anchors: float tensor `(A, D)`.
            reference_labels: integer tensor `(R,)` or `(R, 1)`.
            references: float tensor `(R, D)`.
            exclude_self: leave out pairs of equal index; the references then begin with the
                anchors.
            mask: boolean tensor that broadcasts to `(A, R)`, the pairs that may count; `None` for
                all.

        Returns:
            float32 scalar (float64 for float64 embeddings).

        Raises:
            ValueError: as `gsp_tf.losses.inputs.checked`, for anchors and for references.

        Example:
            >>> import numpy as np
            >>> from gsp_tf.losses import ContrastiveLoss
            >>> anchors, references = np.eye(2), np.array([[0.6, 0.8]])
            >>> float(ContrastiveLoss().pairwise([0, 1], anchors, [0], references))
            0.89
        """
        with keras.name_scope(self.name):
            anchors, references = at_least_float32(anchors, references)
            anchor_labels, anchors, are_anchors = self._prepare(anchor_labels, anchors)
            reference_labels, references, are_references = self._prepare(
                reference_labels, references
            )
            pairs = Pairs(anchors, references, anchor_labels, reference_labels, exclude_self, mask)
            is_valid = ops.logical_and(are_anchors, are_references)
            return nan_unless(is_valid, self.mined_loss(pairs))

    def _prepare(self, labels, embeddings):
        labels, embeddings, is_valid = checked(labels, embeddings, normalize=self.normalize)
        return labels, l2_normalize(embeddings) if self.normalize else embeddings, is_valid

    def mined_loss(self, pairs):
        """Loss, a scalar, of the pairs that the miner leaves of `Pairs`."""
        return self.pairs_loss(self.mined(pairs))

    def mined(self, pairs):
        """The `Pairs` with the weights that the miner gives them."""
        if self.miner is not None:
            pairs.positives, pairs.negatives = map(ops.stop_gradient, self.miner(pairs))
        return pairs

    def pairs_loss(self, pairs):
        """Loss, a scalar, of `Pairs`."""
        raise NotImplementedError

    def get_config(self):
        return {
            "name": self.name,
            "normalize": self.normalize,
            "miner": keras.saving.serialize_keras_object(self.miner),
        }
