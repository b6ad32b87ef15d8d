"""Binomial deviance loss (Yi et al. 2014; Ustinova and Lempitsky 2016)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._backend import softplus
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class BinomialDevianceLoss(PairLoss):
    """Logistic regression of "same class" on the similarity of a pair.

    `mean log(1 + exp(-α β_1 (s_ij - m))) over positives + mean log(1 + exp(α β_0 (s_ij - m))) over
    negatives` with cosine similarities s. "Deep Metric Learning for Practical Person
    Re-Identification" (Yi, Lei, Li 2014), eq. 10, has a factor for the negatives only. Both factors
    are those of A-grouping (Xu et al.), eq. 2.

    The defaults are those of Yi et al. and of the program of A-grouping's authors. For the loss
    that A-grouping prints, in Table 1 and under the mean over all pairs of eq. 14, use
    `positive_weight=25.0, negative_weight=1.0, mean_over_pairs=True`.

    Args:
        alpha: α, scale of the similarities (β_1 of Yi et al.).
        margin: m, similarity that separates positives from negatives (β_2 of Yi et al.).
        negative_weight: β_0, factor of the negatives' exponent (C of Yi et al.).
        positive_weight: β_1, factor of the positives' exponent.
        mean_over_pairs: one mean over all pairs, instead of the sum of the means over positives and
            over negatives.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(BinomialDevianceLoss()([0, 0, 1], embeddings)), 3)
        0.598
    """

    takes_grades = True

    alpha: float = 2.0
    margin: float = 0.5
    negative_weight: float = 25.0
    positive_weight: float = 1.0
    mean_over_pairs: bool = False
    distance: Distance | DistanceName | None = None

    def terms(self, pairs: Pairs) -> Terms:
        exponents = self.alpha * (pairs.similarities - self.margin)
        pull, push = -self.positive_weight * exponents, self.negative_weight * exponents
        if pairs.is_graded:
            pull, push = softplus(pull), softplus(push)
        else:  # a pair is either positive or negative, so one softplus serves both
            pull = push = softplus(ops.where(pairs.positives > 0, pull, push))
        if self.mean_over_pairs:
            yield pairs.mixed(pull, push), pairs.positives + pairs.negatives
        else:
            yield pull, pairs.positives
            yield push, pairs.negatives
