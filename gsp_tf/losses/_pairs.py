"""Pairs of samples, with their distances and weights."""

import copy
from collections.abc import Iterable
from functools import cached_property
from typing import TypeAlias

import keras
from keras import ops

from gsp_tf._typing import Relation, Tensor
from gsp_tf.losses.distances import Distance
from gsp_tf.ops import l2_normalize, label_relation, pairwise_distances

Terms: TypeAlias = Iterable[tuple[Tensor, Tensor]]
"""Terms of a loss and their weights, for each kind that is reduced by itself."""


class Pairs:
    """All pairs of an anchor and a reference, with their distances and weights.

    A pair that does not count has weight 0. Positive pairs have weight 0 among the negatives, and
    vice versa, except for a graded relation r of their labels: then a pair has the weight r among
    the positives and 1 - r among the negatives. A miner may drop pairs or count them more than
    once.

    Args:
        anchors: float tensor `(A, D)`.
        references: float tensor `(R, D)`; the anchors themselves for the pairs of a batch.
        anchor_labels: int64 tensor `(A,)`; or label vectors `(A, C)` for another relation.
        reference_labels: int64 tensor `(R,)`, or `(R, C)`.
        exclude_self: leave out pairs of equal index. The first references must then be the anchors.
        mask: boolean tensor that broadcasts to `(A, R)`: the pairs that may count; `None` for all.
        counted: boolean tensor `(A,)`: the samples of a batch that count; `None` for all.
        relation: as in `gsp_tf.ops.label_relation`.
        relation_threshold: pairs with a relation above it are positives, all others negatives;
            `None` weighs pairs by their relation.

    Attributes:
        positives: weights `(A, R)` of the pairs within a class, or of related pairs.
        negatives: weights `(A, R)` of the pairs between two classes, or of unrelated pairs.
        is_graded: whether a pair may have a weight among both.
        is_triplet: what `TripletMiner.chosen` gives, if the weights count its triplets, or `None`.

    Example:
        >>> import numpy as np
        >>> x, labels = np.eye(3), [4, 9, 4]
        >>> Pairs(x, x, labels, labels, exclude_self=True).positives.numpy()
        array([[0., 0., 1.],
               [0., 0., 0.],
               [1., 0., 0.]])
    """

    def __init__(
        self,
        anchors: Tensor,
        references: Tensor,
        anchor_labels: Tensor,
        reference_labels: Tensor,
        exclude_self: bool = False,
        mask: Tensor | None = None,
        counted: Tensor | None = None,
        relation: Relation = "equal",
        relation_threshold: float | None = None,
    ) -> None:
        self.anchors, self.references = anchors, references
        self.anchor_labels = anchor_labels
        self.counted = counted
        self.is_graded = is_graded(relation, relation_threshold)
        if counted is not None:
            mask = ops.logical_and(counted[:, None], counted[None, :])
        related = label_relation(anchor_labels, reference_labels, relation)
        if relation_threshold is not None:
            related = related > relation_threshold
        related = ops.stop_gradient(ops.cast(related, anchors.dtype))
        if exclude_self:
            others = ops.not_equal(
                ops.arange(ops.shape(anchors)[0])[:, None],
                ops.arange(ops.shape(references)[0])[None, :],
            )
            mask = others if mask is None else ops.logical_and(others, mask)
        self.positives, self.negatives = (
            x if mask is None else ops.where(mask, x, 0.0) for x in (related, 1.0 - related)
        )

    is_triplet = None
    _distance = None

    def measured(self, distance: Distance) -> "Pairs":
        """The same pairs with another distance d, and with similarities of 1 - d."""
        pairs = self._without_cache()
        pairs._distance, is_defined = distance, distance.is_defined(self.anchors)
        if is_defined is not True:
            pairs.positives, pairs.negatives = (
                ops.where(is_defined, x, 0.0) for x in (self.positives, self.negatives)
            )
            pairs.counted = is_defined[:, 0]
            if self.counted is not None:
                pairs.counted = ops.logical_and(pairs.counted, self.counted)
        return pairs

    def prefix(self, dim: int, normalize: bool) -> "Pairs":
        """The same pairs of the first `dim` components of all vectors, normalised if asked for."""

        def cut(vectors):
            return l2_normalize(vectors[:, :dim]) if normalize else vectors[:, :dim]

        pairs = self._without_cache()
        is_batch = self.references is self.anchors
        pairs.anchors = cut(self.anchors)
        pairs.references = pairs.anchors if is_batch else cut(self.references)
        return pairs

    def _without_cache(self):
        pairs = copy.copy(self)
        for name, value in vars(Pairs).items():
            if isinstance(value, cached_property):
                vars(pairs).pop(name, None)
        return pairs

    @cached_property
    def distances(self) -> Tensor:
        """Distances `(A, R)`: Euclidean, unless the loss is given another distance."""
        return self.euclidean_distances if self._distance is None else self._other_distances

    @cached_property
    def squared_distances(self) -> Tensor:
        """Squared Euclidean distances `(A, R)`, or the other distance that the loss is given."""
        return self._euclidean(squared=True) if self._distance is None else self._other_distances

    @cached_property
    def euclidean_distances(self) -> Tensor:
        """Euclidean distances `(A, R)`."""
        return self._euclidean(squared=False)

    def _euclidean(self, squared):
        return pairwise_distances(self.anchors, self.references, squared, where=self._counted)

    @property
    def _counted(self):
        return self.positives + self.negatives > 0

    @cached_property
    def _other_distances(self):
        return self._distance(self.anchors, self.references, self._counted)

    @cached_property
    def similarities(self) -> Tensor:
        """Inner products `(A, R)`, cosine similarities of normalised embeddings.

        With another distance they are 1 minus the distances.
        """
        if self._distance is not None:
            return 1.0 - self._other_distances
        return ops.matmul(self.anchors, ops.transpose(self.references))

    @cached_property
    def reference_similarities(self) -> Tensor:
        """Inner products `(R, R)` of the references with each other."""
        if self.references is self.anchors:
            return self.similarities
        return ops.matmul(self.references, ops.transpose(self.references))

    @cached_property
    def reference_distances(self) -> Tensor:
        """Distances `(R, R)` of the references from each other, as in `distances`."""
        if self.references is self.anchors:
            return self.distances
        if self._distance is not None:
            return self._distance(self.references, self.references)
        return pairwise_distances(self.references)

    @cached_property
    def with_itself(self) -> Tensor:
        """Weights `(A, R)` of the positives and, in a batch, 1 for each anchor with itself."""
        if self.references is not self.anchors:
            return self.positives
        itself = ops.eye(ops.shape(self.anchors)[0], dtype=self.dtype)
        if self.counted is not None:
            itself = itself * ops.cast(self.counted, self.dtype)
        return ops.maximum(self.positives, itself)

    @property
    def every_anchor(self) -> Tensor:
        """Weights `(A,)`: 1 for each anchor that counts, and 0 for the others."""
        if self.counted is None:
            return ops.ones_like(self.anchors[:, 0])
        return ops.cast(self.counted, self.dtype)

    def mixed(self, attraction: Tensor, repulsion: Tensor) -> Tensor:
        """Costs `(A, R)` of pairs: those of a positive, of a negative, or a graded mean of both."""
        if self.is_graded:
            return self.positives * attraction + self.negatives * repulsion
        return ops.where(self.positives > 0, attraction, repulsion)

    def triplets(self, columns: Tensor) -> Tensor:
        """Weights `(A, R)` of each anchor, its positive in `columns (A, 1)` and every negative."""
        of_positive = ops.take_along_axis(self.positives, columns, axis=1)
        if self.is_triplet is None:
            return of_positive * self.negatives
        candidates = ops.logical_and(of_positive > 0, self.negatives > 0)
        return ops.cast(ops.logical_and(candidates, self.is_triplet(columns)), self.dtype)

    @property
    def triplet_counts(self) -> tuple[Tensor, Tensor]:
        """Weights `(A, R)` of the triplets that hold each positive pair, and each negative pair."""
        if self.is_triplet is not None:
            return self.positives, self.negatives
        num_positives, num_negatives = (
            ops.sum(x, axis=1, keepdims=True) for x in (self.positives, self.negatives)
        )
        return self.positives * num_negatives, self.negatives * num_positives

    @property
    def dtype(self) -> str:
        """Name of the type of embeddings and weights."""
        return keras.backend.standardize_dtype(self.anchors.dtype)


def is_graded(relation: Relation, threshold: float | None) -> bool:
    """Whether pairs are weighed by their relation, so that one may be positive and negative."""
    return threshold is None and relation not in ("equal", "any")
