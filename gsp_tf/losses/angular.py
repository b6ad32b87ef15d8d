"""Angular loss (Wang et al., ICCV 2017)."""

import math
from dataclasses import dataclass

from keras import ops

from gsp_tf._backend import custom_gradient, segment_sum, softplus
from gsp_tf._config import elementary
from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses._rows import fold_marked


@dataclass(eq=False, repr=False)
class AngularLoss(PairLoss):
    """Bounds the angle at the negative in a triangle with a positive pair.

    `mean_ap log( 1 + Σ_n exp( 4 tan²α (x_a + x_p)ᵀ x_n - 2 (1 + tan²α) x_aᵀ x_p ) )` over all
    positive pairs, where n runs over the negatives of the anchor. "Deep Metric Learning with
    Angular Loss" (ICCV 2017), eq. 8. All embeddings are normalised, including the negatives.

    With R references it needs their R x R similarities.

    Args:
        angle: α, in degrees, above 0 and at most 83.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(AngularLoss()([0, 0, 1], embeddings)), 3)
        0.002
    """

    angle: float = 40.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.angle <= 83:
            raise ValueError(f"angle must lie between 0 and 83 degrees, received {self.angle}.")

    def terms(self, pairs: Pairs) -> Terms:
        square_tangent = elementary("tan", self.angle * (math.pi / 180.0)) ** 2
        scale = 4.0 * square_tangent
        similarities = pairs.similarities
        has_negative = ops.any(pairs.negatives > 0, axis=1, keepdims=True)
        log_sums = _log_sums(
            scale * similarities,
            scale * pairs.reference_similarities,
            ops.logical_and(pairs.positives > 0, has_negative),
            pairs.negatives,
        )
        exponents = log_sums - 2.0 * (1.0 + square_tangent) * similarities
        yield ops.where(has_negative, softplus(exponents), 0.0), pairs.positives


def _log_sums(of_anchors, of_references, marked, weights):
    """For each marked `(a, p)`: `log Σ_n w_an exp(x_an + y_pn)`; 0 elsewhere."""
    # The gradient computes the exponentials of one mark per row again, and so keeps no B^3 terms.

    def exponents(of_anchors, of_references, columns):
        return of_anchors + ops.take(of_references, columns[:, 0], axis=0)

    @custom_gradient
    def log_sums(of_anchors, of_references, marked, weights):
        is_marked = marked > 0

        def add_up(columns, is_active, is_mark, sums):
            toward = exponents(of_anchors, of_references, columns)
            return (ops.where(is_mark, log_sum_exp(toward, weights)[:, None], sums),)

        (sums,) = fold_marked(is_marked, add_up, (ops.zeros_like(of_anchors),))

        def gradient(upstream):
            def pull(columns, is_active, is_mark, as_anchor, as_reference):
                own, factor = (ops.take_along_axis(x, columns, axis=1) for x in (sums, upstream))
                toward = exponents(of_anchors, of_references, columns)
                is_used = ops.logical_and(is_active, weights > 0)
                slopes = ops.where(is_used, factor * weights * ops.exp(toward - own), 0.0)
                to_references = segment_sum(slopes, columns[:, 0], ops.shape(of_references)[0])
                return as_anchor + slopes, as_reference + to_references

            state = ops.zeros_like(of_anchors), ops.zeros_like(of_references)
            of_both = fold_marked(is_marked, pull, state)
            return *of_both, ops.zeros_like(marked), ops.zeros_like(weights)

        return (sums,), gradient

    return log_sums(of_anchors, of_references, ops.cast(marked, of_anchors.dtype), weights)[0]
