"""Margin-based losses with a given and with learned boundaries (Wu et al., ICCV 2017)."""

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_at_least
from gsp_tf._config import is_zero
from gsp_tf._typing import Tensor
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName
from gsp_tf.losses.miners import Miner
from gsp_tf.losses.reduction import Reduction, ReductionName
from gsp_tf.ops import l2_normalize


@dataclass(eq=False, repr=False)
class MarginLoss(PairLoss):
    """Keeps positives below and negatives above a boundary.

    `[α + d_ap - β]_+ + [α + β - d_an]_+` over all triplets of an anchor, a positive and a negative,
    divided by the number of terms that are not 0, with Euclidean distances d. Each term of a
    triplet depends on one pair only, so the sum over triplets is a sum over pairs. "Sampling
    Matters in Deep Embedding Learning" (ICCV 2017), eq. 10 (thesis, eq. 2.1.3).
    `DistanceWeightedMiner` implements its sampling, and `ClassMarginLoss` learns β. The GSP
    authors' code averages each kind of term separately, as `reduction="nonzero_mean"` does; by
    default this loss follows Wu et al. With
    `mean_over_pairs=True` it is eq. 3 of A-grouping (Xu et al.), where α is called m and β is
    called η, under the mean of its eq. 14.

    Args:
        margin: α, half the width of the band around the boundary.
        beta: β, the boundary, a distance.
        mean_over_pairs: average over all pairs, each once, including those that cost nothing.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(MarginLoss()([0, 0, 1], embeddings)), 3)
        0.942
    """

    margin: float = 0.2
    beta: float = 1.2
    mean_over_pairs: bool = False
    distance: Distance | DistanceName | None = None

    @property
    def default_reduction(self):
        """One mean over all pairs, or one over those of each kind that cost something."""
        return "mean" if self.mean_over_pairs else "nonzero_mean"

    def terms(self, pairs: Pairs) -> Terms:
        yield from self.costs(pairs, self.beta)

    def costs(self, pairs: Pairs, beta: float | Tensor) -> list[tuple[Tensor, Tensor]]:
        """Costs of each kind that is reduced by itself, and their weights, as in `terms`.

        `beta` is a number, or one per anchor `(A, 1)`.
        """
        attraction = ops.relu(self.margin + pairs.distances - beta)
        repulsion = ops.relu(self.margin + beta - pairs.distances)
        if self.mean_over_pairs:
            return [(pairs.mixed(attraction, repulsion), pairs.positives + pairs.negatives)]
        kinds = list(zip((attraction, repulsion), pairs.triplet_counts, strict=True))
        if self.reduction is None:
            return [tuple(ops.concatenate(x, axis=1) for x in zip(*kinds, strict=True))]
        return kinds


class ClassMarginLoss(LossLayer):
    """Margin-based loss with a learned boundary β_y per class.

    `[α + d_ap - β_y]_+ + [α + β_y - d_an]_+ + ν β_y` over all triplets of an anchor of class y, a
    positive and a negative, divided by the number of hinges that are not 0. The loss is 0 if there
    are none. "Sampling Matters in Deep Embedding Learning" (ICCV 2017), with its boundaries
    `β^(class)` but not those of single images. ν pulls the boundaries down, so that fewer negative
    and more positive pairs violate their margin.

    A-grouping (Xu et al.), eq. 3, prints one boundary, η, and no ν. Use `shared_beta=True`, and
    `mean_over_pairs=True` for its eq. 14. The authors' program has a boundary per class and a ν of
    0. The learning rate of η is 5e-4 (Table 1) and that of the network 1e-5 or 2e-5: use
    `with_learning_rate_multipliers(optimizer, {"betas": 50})`, or 25.

    Args:
        num_classes: number of classes; labels are 0 to num_classes - 1.
        margin: α, half the width of the band around a boundary.
        beta: initial boundary, a distance.
        nu: ν >= 0, weight of the boundaries in the loss; it keeps them from growing.
        shared_beta: one boundary for all classes.
        mean_over_pairs: average over all pairs, each once, including those that cost nothing.
        normalize, miner, distance, reduction: as in `PairLoss`. ν β_y is reduced in the same way,
            without class weights.
        kwargs: an `embedding_regularizer` as in `PairLoss`, and arguments of `keras.layers.Layer`.

    Weight: `betas (num_classes,)`, or `(1,)` if shared.

    Raises:
        ValueError: if `reduction="none"` meets a ν.

    Example:
        >>> loss = ClassMarginLoss(num_classes=2)
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(loss([0, 0, 1], embeddings)), 3)
        0.942
    """

    unscheduled = ("margin", "beta", "distance", "reduction")

    def __init__(
        self,
        num_classes: int,
        margin: float = 0.2,
        beta: float = 1.2,
        nu: float = 0.0,
        shared_beta: bool = False,
        mean_over_pairs: bool = False,
        normalize: bool = True,
        miner: Miner | None = None,
        distance: Distance | DistanceName | None = None,
        reduction: Reduction | ReductionName | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, **kwargs)
        check_at_least(0, nu=nu)
        self.margin, self.beta, self.nu = margin, beta, nu
        self.shared_beta, self.mean_over_pairs = shared_beta, mean_over_pairs
        self.normalize, self.miner = normalize, miner
        self.distance, self.reduction = distance, reduction
        self.margin_loss = MarginLoss(
            margin,
            beta,
            mean_over_pairs,
            distance,
            normalize=normalize,
            miner=miner,
            reduction=reduction,
        )
        self.reducer = self.margin_loss.reducer
        self.reducer.check_classes(num_classes)
        if nu and self.reducer.name == "none":
            raise ValueError(f"reduction='none' takes nu=0, received nu={nu}.")
        self.seed_generator = self.margin_loss.seed_generator

    def build(self, labels_shape, embeddings_shape):
        self.betas = self.add_weight(
            name="betas",
            shape=(1 if self.shared_beta else self.num_classes,),
            initializer=keras.initializers.Constant(self.beta),
        )

    def call(self, labels, embeddings):
        anchors = l2_normalize(embeddings) if self.normalize else embeddings
        pairs = self.margin_loss.mined(Pairs(anchors, anchors, labels, labels, exclude_self=True))
        betas = ops.take(self.betas, labels * 0 if self.shared_beta else labels)[:, None]
        kinds = self.margin_loss.costs(pairs, betas)
        total = self.reducer(kinds, labels)
        if not is_zero(self.nu):
            counts = pairs.triplet_counts[0]
            if self.mean_over_pairs:
                counts = pairs.positives + pairs.negatives
            sums = ops.sum(counts, axis=1) * betas[:, 0]
            counted = sum(ops.sum(self.reducer.counted(*kind), axis=1) for kind in kinds)
            pull = self.nu * self.reducer.of_anchors(sums, counted)
            total = total + ops.where(ops.any(counted > 0), pull, 0.0)
        return total
