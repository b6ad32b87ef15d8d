"""Ranked list loss (Wang et al., CVPR 2019)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_at_least, check_share
from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class RankedListLoss(PairLoss):
    """Keeps positives within a sphere around the anchor and weighs violating negatives.

    `mean_i ( (1 - λ) Σ_p w_p (d_ip - (α - m)) / Σ_p w_p + λ Σ_n w_n (α - d_in) / Σ_n w_n )` over
    the positives with `d_ip > α - m`, `w_p = exp(T_p (d_ip - (α - m)))`, and the negatives with
    `d_in < α`, `w_n = exp(T_n (α - d_in))`, for Euclidean distances d. "Ranked List Loss for Deep
    Metric Learning" (CVPR 2019). The weights are differentiated too, as in
    pytorch-metric-learning.

    Args:
        margin: m, a distance, between the two bounds.
        negative_temperature: T_n >= 0; 0 weighs all violating negatives alike.
        imbalance: λ in 0 to 1.
        alpha: α, distance that negatives should exceed; `None` is 1 + m / 2.
        positive_temperature: T_p >= 0.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(RankedListLoss()([0, 0, 1], embeddings)), 3)
        0.43
    """

    margin: float = 0.4
    negative_temperature: float = 10.0
    imbalance: float = 0.5
    alpha: float | None = None
    positive_temperature: float = 0.0
    distance: Distance | DistanceName | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(imbalance=self.imbalance)
        check_at_least(
            0,
            negative_temperature=self.negative_temperature,
            positive_temperature=self.positive_temperature,
        )

    def terms(self, pairs: Pairs) -> Terms:
        alpha = 1.0 + self.margin / 2.0 if self.alpha is None else self.alpha
        attraction = self._mean(
            pairs.distances - (alpha - self.margin), pairs.positives, self.positive_temperature
        )
        repulsion = self._mean(alpha - pairs.distances, pairs.negatives, self.negative_temperature)
        costs = (1.0 - self.imbalance) * attraction + self.imbalance * repulsion
        yield costs, pairs.every_anchor

    def _mean(self, violations, weights, temperature):
        """Mean of each row's positive violations v, weighted by exp(T v)."""
        counted = ops.where(violations > 0, weights, 0.0)
        logits = temperature * violations
        total = log_sum_exp(logits, counted)[:, None]
        shares = ops.exp(ops.where(counted > 0, logits - total, 0.0))
        return ops.sum(counted * shares * violations, axis=1)
