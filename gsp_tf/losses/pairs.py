"""All pairs of an anchor and a reference: how far apart they are, and which of them count."""

from functools import cached_property

from keras import ops

from gsp_tf.ops import pairwise_distances


class Pairs:
    """What a loss over pairs is computed from.

    A pair's weight is 0 where it does not count: a positive pair has no weight among the negatives,
    a sample is no pair with itself, and a miner may drop pairs or count them more than once.

    Args:
        anchors: float tensor `(A, D)`.
        references: float tensor `(R, D)`; the anchors themselves for the pairs of a batch.
        anchor_labels: int64 tensor `(A,)`.
        reference_labels: int64 tensor `(R,)`.
        exclude_self: leave out pairs of equal index; the references then begin with the anchors.
        mask: boolean tensor that broadcasts to `(A, R)`, the pairs that may count; `None` for all.

    Attributes:
        positives: weights `(A, R)` of the pairs of one class.
        negatives: weights `(A, R)` of the pairs of two classes.

    Example:
        >>> import numpy as np
        >>> x = np.eye(3)
        >>> pairs = Pairs(x, x, np.array([4, 9, 4]), np.array([4, 9, 4]), exclude_self=True)
        >>> pairs.positives.numpy()
        array([[0., 0., 1.],
               [0., 0., 0.],
               [1., 0., 0.]])
    """

    def __init__(
        self, anchors, references, anchor_labels, reference_labels, exclude_self=False, mask=None
    ):
        self.anchors, self.references = anchors, references
        self.anchor_labels = anchor_labels
        positives = ops.equal(anchor_labels[:, None], reference_labels[None, :])
        negatives = ops.logical_not(positives)
        if exclude_self:
            others = ops.not_equal(
                ops.arange(ops.shape(anchors)[0])[:, None],
                ops.arange(ops.shape(references)[0])[None, :],
            )
            positives = ops.logical_and(positives, others)
        if mask is not None:
            positives, negatives = (ops.logical_and(x, mask) for x in (positives, negatives))
        self.positives, self.negatives = (
            ops.cast(x, anchors.dtype) for x in (positives, negatives)
        )

    @cached_property
    def distances(self):
        """Euclidean distances `(A, R)`."""
        return self._distances(squared=False)

    @cached_property
    def squared_distances(self):
        """Squared Euclidean distances `(A, R)`."""
        return self._distances(squared=True)

    def _distances(self, squared):
        counted = self.positives + self.negatives > 0
        return pairwise_distances(self.anchors, self.references, squared, where=counted)

    @cached_property
    def similarities(self):
        """Inner products `(A, R)`: cosine similarities of normalised embeddings."""
        return ops.matmul(self.anchors, ops.transpose(self.references))

    @cached_property
    def reference_similarities(self):
        """Inner products `(R, R)` of the references with each other."""
        if self.references is self.anchors:
            return self.similarities
        return ops.matmul(self.references, ops.transpose(self.references))
