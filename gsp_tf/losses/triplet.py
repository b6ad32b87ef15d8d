"""Triplet margin loss (Weinberger and Saul 2009; Schroff et al. 2015)."""

from dataclasses import dataclass

import keras
from keras import ops

from gsp_tf._arguments import check_sizes, checked_seed
from gsp_tf._backend import segment_sum, softplus
from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs
from gsp_tf.losses._rows import fold_marked
from gsp_tf.losses.distances import Distance, DistanceName
from gsp_tf.losses.miners import TripletMiner


@dataclass(eq=False, repr=False)
class TripletLoss(PairLoss):
    """Requires every positive to be nearer to the anchor than every negative, by a margin.

    `[d_ap - d_an + m]_+` over all triplets of an anchor, a positive and a negative, averaged over
    the terms that are not 0, with Euclidean distances d between L2-normalised embeddings. "FaceNet:
    A Unified Embedding for Face Recognition and Clustering" (Schroff, Kalenichenko, Philbin, CVPR
    2015), eq. 3, with distances that are not squared (Musgrave et al. 2020; thesis, eq. 2.1.2).

    With a `TripletMiner`, the triplets are those that it chooses. With another miner, the weight of
    a triplet is the product of the weights of its two pairs.

    Args:
        margin: m, a distance.
        swap: the distance of the negative is that to the anchor or to the positive, whichever is
            smaller (Balntas et al., BMVC 2016). It needs the distances between all references.
        soft: `log(1 + exp(d_ap - d_an + m))` instead of the hinge (Hermans et al. 2017).
        triplets_per_anchor: number of triplets to draw for each anchor, with replacement, the
            weights of a miner as probabilities; `None` takes all triplets.
        seed: of the draws; a miner that draws brings its own.
        distance: in place of that of the formula, as in `PairLoss`.

    Raises:
        ValueError: if `triplets_per_anchor` is below 1, or given with a `TripletMiner`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(TripletLoss()([0, 0, 1], embeddings)), 3)
        0.537
    """

    margin: float = 0.1
    swap: bool = False
    soft: bool = False
    triplets_per_anchor: int | None = None
    seed: int | None = None
    distance: Distance | DistanceName | None = None

    default_reduction = "nonzero_mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        refused = {"none", "mean_per_anchor"} if self.swap else {"none"}
        if self.reducer.name in refused:
            raise ValueError(
                f"TripletLoss(swap={self.swap}) takes no reduction={self.reducer.name!r}."
            )
        self.seed = checked_seed(self.seed)
        self._draws = None
        if self.triplets_per_anchor is not None:
            check_sizes(triplets_per_anchor=self.triplets_per_anchor)
            if isinstance(self.miner, TripletMiner):
                raise ValueError(
                    "triplets_per_anchor draws from all triplets, and "
                    f"{type(self.miner).__name__} chooses them itself: give one of the two."
                )
            self._draws = super().seed_generator or keras.random.SeedGenerator(self.seed)

    @property
    def seed_generator(self) -> keras.random.SeedGenerator | None:
        """Random state of the draws of triplets, or that of the miner, else `None`."""
        return self._draws or super().seed_generator

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        if self.triplets_per_anchor is not None:
            return self.reducer([self._drawn(pairs)], pairs.anchor_labels, pairs.every_anchor)
        return self.reducer.of_anchors(*self._of_all(pairs), pairs.every_anchor)

    def _drawn(self, pairs):
        """Terms and weights `(A, T)` of triplets that are drawn."""

        def draw(weights):
            cumulated = ops.cumsum(weights, axis=1)
            shape = self.triplets_per_anchor, ops.shape(weights)[0]
            draws = keras.random.uniform(shape, 0.0, 1.0 - 1e-6, cumulated.dtype, self._draws)

            # A draw selects the first pair with a cumulated weight above it.
            def place(draws):
                below = cumulated <= draws[:, None] * cumulated[:, -1:]
                return ops.sum(ops.cast(below, "int32"), axis=1)

            places = ops.transpose(ops.map(place, draws))
            return ops.minimum(places, ops.shape(weights)[1] - 1)

        positives, negatives = draw(pairs.positives), draw(pairs.negatives)
        near, far = (
            ops.take_along_axis(pairs.distances, x, axis=1) for x in (positives, negatives)
        )
        if self.swap:
            places = positives * ops.shape(pairs.references)[0] + negatives
            between = ops.take(ops.reshape(pairs.reference_distances, (-1,)), places)
            far = ops.minimum(far, between)
        complete = [ops.any(x > 0, axis=1) for x in (pairs.positives, pairs.negatives)]
        complete = ops.cast(ops.logical_and(*complete), near.dtype)[:, None]
        costs = self._costs(near - far)
        return costs, complete * ops.ones_like(costs)

    def _of_all(self, pairs):
        """Sums `(A,)` of the terms of each anchor and of their weights."""
        distances, positives = pairs.distances, pairs.positives
        between = pairs.reference_distances if self.swap else None
        fixed, fixed_between = (
            None if x is None else ops.stop_gradient(x) for x in (distances, between)
        )
        num_references = ops.shape(distances)[1]
        factors = 1.0
        if self.reducer.class_weights is not None:
            factors = self.reducer.class_factors(pairs.anchor_labels, distances.dtype)[:, None]

        def add(
            columns, is_active, is_positive, total, count, as_positive, as_negative, *as_between
        ):
            own = ops.take_along_axis(fixed, columns, axis=1)
            weight = ops.where(is_active, pairs.triplets(columns), 0.0)
            far, share = fixed, 1.0
            if self.swap:
                others = ops.take(fixed_between, columns[:, 0], axis=0)
                share = ops.where(fixed == others, 0.5, ops.cast(fixed < others, fixed.dtype))
                far = ops.minimum(fixed, others)
            violations = own - far
            costs = self._costs(violations)
            weight = self.reducer.counted(costs, weight)
            count = count + ops.sum(weight, axis=1)
            weight = factors * weight
            total = total + ops.sum(weight * costs, axis=1)
            if self.soft:
                slopes = weight * ops.sigmoid(violations + self.margin)
            else:
                slopes = ops.where(costs > 0, weight, 0.0)
            pulls = ops.sum(slopes, axis=1, keepdims=True)
            as_positive = ops.where(is_positive, pulls, as_positive)
            if self.swap:
                pushes = (1.0 - share) * slopes
                pushes = segment_sum(pushes, columns[:, 0], num_references)
                as_between = (as_between[0] + pushes,)
            return total, count, as_positive, as_negative + share * slopes, *as_between

        per_anchor, per_pair = ops.zeros_like(positives[:, 0]), ops.zeros_like(positives)
        state = [per_anchor, per_anchor, per_pair, per_pair]
        if self.swap:
            state.append(ops.zeros_like(between))
        total, count, as_positive, as_negative, *as_between = fold_marked(positives > 0, add, state)
        # The sum of anchor a is L_a = Σ_pn w_apn f(d_ap - d_an + m), f the hinge or softplus, so
        #   ∂L_a/∂d_ap = Σ_n w_apn f'(...), ∂L_a/∂d_an = -Σ_p w_apn f'(...).
        # The loop adds up these slopes, as_positive and -as_negative, beside the value, and keeps
        # no B^3 terms. Σ_r (as_positive - as_negative)_ar d_ar with constant slopes has the
        # derivatives of L_a; less its own value, it adds nothing else.
        # With `swap`, min(d_an, d_pn) passes its slope on to the smaller distance, half to each of
        # equal ones. A reduction weighs all anchors alike then, so each may have 1/A of those of
        # the distances d_pn between references.
        linear = ops.sum((as_positive - as_negative) * distances, axis=1)
        if self.swap:
            share = ops.sum(ops.sum(as_between[0] * between, axis=1))
            linear = linear - share / ops.cast(ops.shape(linear)[0], linear.dtype)
        return total + linear - ops.stop_gradient(linear), count

    def _costs(self, violations):
        violations = violations + self.margin
        return softplus(violations) if self.soft else ops.relu(violations)
