"""Pairs of samples, and the bases of their miners and losses."""

import copy
from functools import cached_property
from typing import Any, Literal

import keras
from keras import ops

from gsp_tf._config import constructor_config, deserialized
from gsp_tf._typing import Tensor
from gsp_tf.losses._inputs import check_choice, check_inputs, nan_unless
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses._reductions import weighted_mean
from gsp_tf.ops import at_least_float32, l2_normalize, pairwise_distances

Distance = Literal["euclidean", "squared_euclidean", "angular"]


class Pairs:
    """All pairs of an anchor and a reference, with their distances and weights.

    A pair that does not count has weight 0. Positive pairs have weight 0 among the negatives, and
    vice versa. A miner may drop pairs or count them more than once.

    Args:
        anchors: float tensor `(A, D)`.
        references: float tensor `(R, D)`; the anchors themselves for the pairs of a batch.
        anchor_labels: int64 tensor `(A,)`.
        reference_labels: int64 tensor `(R,)`.
        exclude_self: leave out pairs of equal index. The first references must then be the anchors.
        mask: boolean tensor that broadcasts to `(A, R)`: the pairs that may count; `None` for all.
        counted: boolean tensor `(A,)`: the samples of a batch that count; `None` for all.

    Attributes:
        positives: weights `(A, R)` of the pairs within a class.
        negatives: weights `(A, R)` of the pairs between two classes.

    Example:
        >>> import numpy as np
        >>> x, labels = np.eye(3), np.array([4, 9, 4])
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
    ) -> None:
        self.anchors, self.references = anchors, references
        self.anchor_labels = anchor_labels
        self.counted = counted
        if counted is not None:
            mask = ops.logical_and(counted[:, None], counted[None, :])
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

    def prefix(self, dim: int, normalize: bool) -> "Pairs":
        """The same pairs of the first `dim` components of all vectors, normalised if asked for."""

        def cut(vectors):
            return l2_normalize(vectors[:, :dim]) if normalize else vectors[:, :dim]

        pairs = copy.copy(self)
        is_batch = self.references is self.anchors
        pairs.anchors = cut(self.anchors)
        pairs.references = pairs.anchors if is_batch else cut(self.references)
        return pairs

    @cached_property
    def distances(self) -> Tensor:
        """Euclidean distances `(A, R)`."""
        return self._euclidean(squared=False)

    @cached_property
    def squared_distances(self) -> Tensor:
        """Squared Euclidean distances `(A, R)`."""
        return self._euclidean(squared=True)

    def _euclidean(self, squared):
        counted = self.positives + self.negatives > 0
        return pairwise_distances(self.anchors, self.references, squared, where=counted)

    @property
    def angular_distances(self) -> Tensor:
        """1 minus the cosine similarities `(A, R)`."""
        anchors, references = l2_normalize(self.anchors), l2_normalize(self.references)
        return ops.relu(1.0 - ops.matmul(anchors, ops.transpose(references)))

    @cached_property
    def similarities(self) -> Tensor:
        """Inner products `(A, R)`: cosine similarities of normalised embeddings."""
        return ops.matmul(self.anchors, ops.transpose(self.references))

    @cached_property
    def reference_similarities(self) -> Tensor:
        """Inner products `(R, R)` of the references with each other."""
        if self.references is self.anchors:
            return self.similarities
        return ops.matmul(self.references, ops.transpose(self.references))

    @cached_property
    def reference_distances(self) -> Tensor:
        """Euclidean distances `(R, R)` of the references from each other."""
        if self.references is self.anchors:
            return self.distances
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

    def mean_over_anchors(self, terms: Tensor) -> Tensor:
        """Mean of terms `(A,)` over the anchors that count."""
        return ops.mean(terms) if self.counted is None else weighted_mean(terms, self.counted)

    @property
    def dtype(self) -> str:
        """Name of the type of embeddings and weights."""
        return keras.backend.standardize_dtype(self.anchors.dtype)


def check_distance(name: Distance) -> None:
    """Raise ValueError for a name that is not a `Distance`."""
    check_choice("distance", name, Distance)


def distances_named(name: Distance, pairs: Pairs) -> Tensor:
    """Distances `(A, R)` between anchors and references."""
    attributes = {
        "euclidean": "distances",
        "squared_euclidean": "squared_distances",
        "angular": "angular_distances",
    }
    return getattr(pairs, attributes[name])


class Miner:
    """Base of the miners, which weigh all positive and negative pairs.

    A subclass implements `__call__(pairs) -> (positives, negatives)`. Both are weights `(A, R)`
    with the shape and type of `pairs.positives`, 0 for a pair that does not count. Losses do not
    differentiate them. Every constructor argument is an attribute of the same name; these form the
    config.

    Example:
        >>> class NoNegatives(Miner):
        ...     def __call__(self, pairs):
        ...         return pairs.positives, 0.0 * pairs.negatives
        >>> import numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> float(ContrastiveLoss(miner=NoNegatives())([0, 1], np.ones((2, 3))))
        0.0
    """

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return constructor_config(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Miner":
        return cls(**config)


class PairLoss(keras.losses.Loss):
    """Base of the losses over pairs that have no weights.

    A subclass implements `pairs_loss(pairs) -> scalar`. It uses the distances or similarities of
    `Pairs` and the weights of the positive and negative pairs. The losses work in
    `compile(loss=...)` of any Keras model that outputs the embedding. Every constructor argument is
    an attribute of the same name; these form the config.

    Call: `loss(labels, embeddings)` takes integer labels `(B,)` or `(B, 1)` and embeddings
    `(B, D)`. It returns a scalar over all pairs of two samples, float32 (float64 for float64
    embeddings). It raises ValueError for other types and shapes, and if `sample_weight` is given.

    Args:
        normalize: L2-normalise the embeddings first.
        miner: chooses or weighs the pairs, such as `MultiSimilarityMiner()`; `None` takes all.
        name: name of the loss.

    Attributes:
        sums_over_references: whether the loss is a sum over the references, so that it can be
            computed for a few references at a time. A subclass may set it.
        takes_references: whether the loss has `pairwise`.

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
    takes_references = True

    def __init__(
        self, normalize: bool = True, miner: Miner | None = None, name: str | None = None
    ) -> None:
        super().__init__(name=name)
        if miner is not None and not isinstance(miner, Miner):
            raise ValueError(
                f"miner must be a miner such as MultiSimilarityMiner(), received {miner!r}."
            )
        self.normalize = normalize
        self.miner = miner

    @property
    def seed_generator(self) -> keras.random.SeedGenerator | None:
        """Random state of a miner that draws samples, else `None`."""
        return getattr(self.miner, "seed_generator", None)

    def __call__(self, labels: Tensor, embeddings: Tensor, sample_weight: None = None) -> Tensor:
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
        anchor_labels: Tensor,
        anchors: Tensor,
        reference_labels: Tensor,
        references: Tensor,
        exclude_self: bool = False,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Loss over all pairs of an anchor and a reference.

        Args:
            anchor_labels: integer tensor `(A,)` or `(A, 1)`.
            anchors: float tensor `(A, D)`.
            reference_labels: integer tensor `(R,)` or `(R, 1)`.
            references: float tensor `(R, D)`.
            exclude_self: as in `Pairs`.
            mask: as in `Pairs`.

        Returns:
            scalar, as from a call.

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
        labels, embeddings, is_valid = check_inputs(labels, embeddings, normalize=self.normalize)
        return labels, l2_normalize(embeddings) if self.normalize else embeddings, is_valid

    def mined_loss(self, pairs: Pairs) -> Tensor:
        """Scalar loss of the pairs as the miner weighs them."""
        return self.pairs_loss(self.mined(pairs))

    def mined(self, pairs: Pairs) -> Pairs:
        """The pairs with the weights from the miner."""
        if self.miner is not None:
            pairs.positives, pairs.negatives = map(ops.stop_gradient, self.miner(pairs))
        return pairs

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        """Scalar loss of the pairs as they are weighted."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return constructor_config(self, passed_on=("normalize", "miner", "name"))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "PairLoss":
        return cls(**deserialized(config))


def is_pair_loss(loss: Any) -> bool:
    """Whether a loss compares anchors with references: a `PairLoss`, or a `MatryoshkaLoss` of one.

    Args:
        loss: any loss.

    Example:
        >>> from gsp_tf.losses import ContrastiveLoss, MatryoshkaLoss, ProxyNCALoss
        >>> losses = ContrastiveLoss(), ProxyNCALoss(num_classes=4)
        >>> [is_pair_loss(MatryoshkaLoss(loss, dims=[2])) for loss in losses]
        [True, False]
    """
    return getattr(loss, "takes_references", False)


class PairWrapper(LossLayer):
    """Base of the loss layers around a pair loss."""

    def __init__(self, loss: PairLoss, num_classes: int | None = None, **kwargs: Any) -> None:
        super().__init__(num_classes, **kwargs)
        if not is_pair_loss(loss):
            raise ValueError(
                f"{type(self).__name__} takes a pair loss such as ContrastiveLoss(), "
                f"received {loss!r}."
            )
        self.loss = loss
        self.seed_generator = loss.seed_generator

    @property
    def normalize(self):
        """Whether the pair loss normalises the embeddings."""
        return self.loss.normalize
