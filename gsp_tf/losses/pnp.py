"""PNP loss: penalise the negatives that come before a positive (Li et al., AAAI 2022)."""

from dataclasses import dataclass
from typing import Literal

from keras import ops

from gsp_tf._arguments import check_choice, check_positive
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses._rows import soft_counts_above

Variant = Literal["O", "Iu", "Ib", "Ds", "Dq"]


@dataclass(eq=False, repr=False)
class PNPLoss(PairLoss):
    """Mean penalty of the number of negatives that rank before each positive of an anchor.

    `mean_i (1 / |P_i|) Σ_{j in P_i} f(R_ij)` with `R_ij = Σ_{negatives k} sigmoid((s_ik - s_ij) /
    τ)` over the anchors that have a positive. "Rethinking the Optimization of Average Precision:
    Only Penalizing Negative Instances before Positive Ones is Enough" (AAAI 2022). The variants of
    f are R (O), `(1 + R) log(1 + R)` (Iu), `(bR - log(1 + bR)) / b^2` (Ib), `log(1 + R)` (Ds) and
    `1 - (1 + R)^-α` (Dq).

    In a batch the anchor itself is one of its positives, as in pytorch-metric-learning.

    Args:
        variant: which f.
        alpha: α > 0 of Dq.
        b: b > 0 of Ib.
        temperature: τ > 0, a similarity.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(PNPLoss()([0, 0, 1], embeddings)), 3)
        0.5
    """

    variant: Variant = "O"
    alpha: float = 1.0
    b: float = 2.0
    temperature: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("variant", self.variant, Variant)
        check_positive(alpha=self.alpha, b=self.b, temperature=self.temperature)

    def terms(self, pairs: Pairs) -> Terms:
        own = pairs.with_itself
        (before,) = soft_counts_above(
            pairs.similarities, own > 0, (pairs.negatives,), self.temperature
        )
        of_anchor = ops.sum(own * self._penalty(before), axis=1)
        of_anchor = of_anchor / ops.maximum(ops.sum(own, axis=1), 1e-9)
        yield of_anchor, ops.any(pairs.positives > 0, axis=1)

    def _penalty(self, before):
        if self.variant == "Iu":
            return (1.0 + before) * ops.log1p(before)
        if self.variant == "Ib":
            scaled = self.b * before
            return (scaled - ops.log1p(scaled)) / self.b**2
        if self.variant == "Ds":
            return ops.log1p(before)
        if self.variant == "Dq":
            return 1.0 - (1.0 + before) ** -self.alpha
        return before
