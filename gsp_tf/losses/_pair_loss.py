"""Bases of the losses over pairs."""

import copy
import operator
import re
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_relation
from gsp_tf._config import Guarded
from gsp_tf._numerics import at_least_float32
from gsp_tf._typing import Relation, Tensor
from gsp_tf.losses._inputs import as_float_tensor, check_inputs, nan_unless
from gsp_tf.losses._layer import (
    NOT_GIVEN,
    LossLayer,
    check_draws_of_plain_model,
    check_regularizer,
)
from gsp_tf.losses._pairs import Pairs, Terms, is_graded
from gsp_tf.losses.distances import as_distance
from gsp_tf.losses.miners import Miner, TripletMiner
from gsp_tf.losses.reduction import Reduction, ReductionName, as_reduction
from gsp_tf.ops import l2_normalize


@dataclass(eq=False, repr=False, kw_only=True)
class PairLoss(Guarded, keras.losses.Loss):
    """Base of the losses over pairs that have no weights.

    A subclass implements `terms(pairs)`, the costs of pairs or anchors and their weights, or
    `pairs_loss(pairs) -> scalar`. It uses the distances or similarities of `Pairs` and the weights
    of the positive and negative pairs. The losses work in `compile(loss=...)` of any Keras model
    that outputs the embedding.

    Losses are dataclasses: the fields are the arguments of the constructor and form the config. A
    subclass whose formula leaves the distance open has a field `distance` too.

    Call: `loss(labels, embeddings)` takes integer labels `(B,)` or `(B, 1)`, or label vectors
    `(B, C)` such as multi-hot tags with another relation than "equal", and embeddings `(B, D)`. It
    returns a scalar over all pairs of two samples, float32 (float64 for float64 embeddings). It
    raises ValueError for other types and shapes, and if `sample_weight` is given.

    Args:
        normalize: L2-normalise the embeddings first.
        miner: chooses or weighs the pairs, such as `MultiSimilarityMiner()`; `None` takes all. It
            sees the distances of the loss, except for `AngularMiner` and `DistanceWeightedMiner`,
            whose formulas hold for Euclidean ones.
        distance: what takes the place of the distances d of the formula, squares included, such as
            `LpDistance(p=1.0)`, or the name of one: "euclidean", "squared_euclidean", "cosine" or
            "angular", "dot_product", "lp" or "signal_to_noise". For similarities the formula gets
            1 - d. `None` is what the formula prints.
        reduction: how the terms become one number, a `Reduction` or its name: "mean",
            "nonzero_mean", "sum", "mean_per_anchor" or "none". `None` is the mean of the paper.
        embedding_regularizer: term of the embeddings as they come, such as `LpRegularizer()`, which
            a call adds; `pairwise` does not.
        relation: which labels belong together: "equal" ones, or for label vectors `(B, C)` of
            entries in [0, 1] those that share "any" entry; or the degree to which they do,
            "jaccard" or "cosine". Or a function of the labels of anchors and references, as in
            `gsp_tf.ops.label_relation`, which gets them as they come, `(B,)` or `(B, C)`.
        relation_threshold: t in [0, 1): pairs with a relation above t are positives, all others
            negatives. `None` takes a degree as a weight: a pair of relation r has the weight r
            among the positives and 1 - r among the negatives. Only some losses take such weights,
            and miners do not.
        name: name of the loss.

    Attributes:
        takes_grades: whether a pair may be a positive and a negative at once, with weights r and
            1 - r. A subclass may set it.
        default_reduction: name of the reduction of the paper. A subclass may set it.
        sums_over_references: whether the loss is a sum over the references, so that it can be
            computed for a few references at a time. A subclass may set it.
        reducer: the `Reduction` in use.

    Example:
        >>> from dataclasses import dataclass
        >>> from gsp_tf.losses import Distance, LpDistance
        >>> @dataclass(eq=False)
        ... class MeanPositiveDistance(PairLoss):
        ...     distance: Distance | str | None = None
        ...     def terms(self, pairs):
        ...         yield pairs.distances, pairs.positives
        >>> labels, embeddings = [0, 0, 1], [[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]]
        >>> float(MeanPositiveDistance(normalize=False)(labels, embeddings))
        5.0
        >>> float(MeanPositiveDistance(normalize=False, distance=LpDistance(1))(labels, embeddings))
        7.0
    """

    normalize: bool = True
    miner: Miner | None = None
    reduction: Reduction | ReductionName | None = None
    embedding_regularizer: keras.regularizers.Regularizer | None = None
    relation: Relation = "equal"
    relation_threshold: float | None = None
    name: str | None = None

    unscheduled = ("distance", "reduction", "relation_threshold")
    distance = None
    default_reduction = "mean"
    takes_grades = False
    sums_over_references = False

    def __post_init__(self) -> None:
        given = vars(self).pop("reduction")
        super().__init__(name=self.name or _snake_case(type(self).__name__))
        vars(self)["reduction"] = given  # in place of that of Keras
        self.reducer = as_reduction(given, self.default_reduction)
        if self.miner is not None and not isinstance(self.miner, Miner):
            raise ValueError(
                f"miner must be a miner such as MultiSimilarityMiner(), received {self.miner!r}."
            )
        self._distance = as_distance(self.distance)
        check_regularizer("embedding_regularizer", self.embedding_regularizer)
        self._check_relation()

    def _check_relation(self):
        relation, threshold, name = self.relation, self.relation_threshold, type(self).__name__
        check_relation(relation)
        if threshold is not None and not (relation != "equal" and 0 <= threshold < 1):
            raise ValueError(
                "relation_threshold must be at least 0 and below 1, and belongs to label vectors; "
                f"received {threshold!r} with relation={relation!r}."
            )
        if relation != "equal" and self.reducer.class_weights is not None:
            raise ValueError(
                f"class_weights belong to relation='equal', received relation={relation!r}."
            )
        if is_graded(relation, threshold) and not (self.takes_grades and self.miner is None):
            chooser = type(self.miner).__name__ if self.takes_grades else name
            raise ValueError(
                f"{chooser} takes pairs that are either positive or negative: with "
                f"relation={relation!r} give relation_threshold too, 0.0 for all labels that have "
                "anything in common."
            )

    @property
    def num_classes(self) -> int | None:
        """Number of classes that have a weight; labels are any if none has."""
        weights = self.reducer.class_weights
        return None if weights is None else len(weights)

    @property
    def seed_generator(self) -> keras.random.SeedGenerator | None:
        """Random state of a miner that draws samples, else `None`."""
        return getattr(self.miner, "seed_generator", None)

    def __call__(
        self, labels: Tensor, embeddings: Tensor, sample_weight: Any = NOT_GIVEN
    ) -> Tensor:
        """Loss of a batch; `compile(loss=...)` alone passes a `sample_weight` (`None`)."""
        if sample_weight is not NOT_GIVEN:
            if sample_weight is not None:
                raise ValueError(
                    f"{type(self).__name__} is a loss over pairs and takes no sample_weight, which "
                    "fit makes of class_weight too. reduction=Reduction(name, class_weights) "
                    "weighs the classes of the anchors."
                )
            check_draws_of_plain_model(self, has_draws=self.seed_generator is not None)
        with keras.name_scope(self.name):
            labels, anchors, is_valid = self._prepare(labels, embeddings)
            loss = self.mined_loss(self.pairs(anchors, anchors, labels, labels, exclude_self=True))
            if self.embedding_regularizer is not None:
                loss = loss + self.embedding_regularizer(as_float_tensor(embeddings))
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
            anchor_labels: integer tensor `(A,)` or `(A, 1)`; label vectors `(A, C)` as in a call.
            anchors: float tensor `(A, D)`.
            reference_labels: integer tensor `(R,)` or `(R, 1)`; label vectors `(R, C)`.
            references: float tensor `(R, D)`.
            exclude_self: as in `Pairs`.
            mask: as in `Pairs`.

        Returns:
            scalar, as from a call.

        Example:
            >>> from gsp_tf.losses import ContrastiveLoss
            >>> anchors, references = [[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8]]
            >>> float(ContrastiveLoss().pairwise([0, 1], anchors, [0], references))
            0.89
        """
        with keras.name_scope(self.name):
            anchors, references = at_least_float32(anchors, references)
            anchor_labels, anchors, are_anchors = self._prepare(anchor_labels, anchors)
            reference_labels, references, are_references = self._prepare(
                reference_labels, references
            )
            pairs = self.pairs(
                anchors, references, anchor_labels, reference_labels, exclude_self, mask
            )
            is_valid = ops.logical_and(are_anchors, are_references)
            return nan_unless(is_valid, self.mined_loss(pairs))

    def _prepare(self, labels, embeddings):
        self.keep_if_traced(embeddings)
        labels, embeddings, is_valid = check_inputs(
            labels, embeddings, self.num_classes, self.normalize, relation=self.relation
        )
        return labels, l2_normalize(embeddings) if self.normalize else embeddings, is_valid

    def pairs(self, *args: Any, **kwargs: Any) -> Pairs:
        """`Pairs` of the same arguments, whose labels are related as the loss says."""
        threshold = self.relation_threshold
        return Pairs(*args, **kwargs, relation=self.relation, relation_threshold=threshold)

    def mined_loss(self, pairs: Pairs) -> Tensor:
        """Scalar loss of the pairs as the miner weighs them."""
        return self.pairs_loss(self.mined(pairs))

    def mined(self, pairs: Pairs) -> Pairs:
        """The pairs with the distance of the loss and the weights from the miner."""
        if self._distance is not None:
            pairs = pairs.measured(self._distance)
        if self.miner is not None:
            weights = self.miner(pairs)
            pairs = copy.copy(pairs)  # with the distances that the miner has seen
            if isinstance(self.miner, TripletMiner):
                pairs.is_triplet = self.miner.chosen(pairs)
            pairs.positives, pairs.negatives = map(ops.stop_gradient, weights)
        return pairs

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        """Loss of the pairs as they are weighted: a scalar, unless the reduction is "none"."""
        return self.reducer(self.terms(pairs), pairs.anchor_labels, pairs.every_anchor)

    def terms(self, pairs: Pairs) -> Terms:
        """Terms of the loss, and their weights, for each kind that is reduced by itself.

        Both are `(A, R)`, one for each pair, or `(A,)`, one for each anchor.
        """
        raise NotImplementedError


PairLoss.inherited = tuple(PairLoss.__dataclass_fields__)


def _snake_case(name):
    """`nt_xent_loss` of `NTXentLoss`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def is_pair_loss(loss: Any) -> bool:
    """Whether a loss is a `PairLoss`, or a `MatryoshkaLoss` of one, with a method `pairwise`."""
    is_wrapped = hasattr(loss, "pairwise") and isinstance(getattr(loss, "loss", None), PairLoss)
    return is_wrapped or isinstance(loss, PairLoss)


def check_pair_loss(wrapper: LossLayer, loss: Any, takes_relations: bool = True) -> None:
    """Raise ValueError unless the loss in a wrapper compares anchors with references."""
    if not is_pair_loss(loss):
        raise ValueError(
            f"{type(wrapper).__name__} takes a pair loss such as ContrastiveLoss(), received "
            f"{loss!r}."
        )
    if loss.relation != "equal" and not takes_relations:
        raise ValueError(
            f"{type(wrapper).__name__} needs classes, and takes a loss with relation='equal'; "
            f"received relation={loss.relation!r}."
        )


class PairWrapper(LossLayer):
    """Base of the loss layers around a pair loss."""

    takes_relations = True
    """Whether the loss may compare label vectors; a subclass may set it."""

    def __init__(self, loss: PairLoss, num_classes: int | None = None, **kwargs: Any) -> None:
        check_pair_loss(self, loss, self.takes_relations)
        super().__init__(loss.num_classes if num_classes is None else num_classes, [loss], **kwargs)
        self.loss = loss
        self.seed_generator = loss.seed_generator

    normalize = property(operator.attrgetter("loss.normalize"))
    relation = property(operator.attrgetter("loss.relation"))
