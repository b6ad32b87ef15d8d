"""Angular loss (Wang et al., ICCV 2017)."""

import math
from collections.abc import Iterable
from typing import Unpack

import keras
import numpy as np
from keras import ops

from gsp_tf._backend import available, matmul
from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairArguments, PairLoss
from gsp_tf.losses._pairs import Pairs


@keras.saving.register_keras_serializable("gsp_tf")
class AngularLoss(PairLoss):
    """Bounds the angle at the negative in a triangle with a positive pair.

    `mean_ap log( 1 + Σ_n exp( 4 tan²α (x_a + x_p)ᵀ x_n - 2 (1 + tan²α) x_aᵀ x_p ) )` over all
    positive pairs, where n runs over the negatives of the anchor. "Deep Metric Learning with
    Angular Loss" (ICCV 2017), eq. 8. All embeddings are normalised, including the negatives;
    pytorch-metric-learning does not normalise those.

    The sum over n is one product of two B x B matrices of exponentials, so B^3 terms are never
    held. With R references it needs their R x R similarities. The sum is computed in float64, which
    is accurate as long as the norm of the embeddings times tan α is below 9 (3 where JAX has no
    float64); beyond that the loss is too large.

    Args:
        angle: α, in degrees, above 0 and at most 83.
        kwargs: arguments of `PairLoss`, such as `miner` and `reduction`.

    Raises:
        ValueError: if the angle is out of range.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], "float32")
        >>> round(float(AngularLoss()(np.array([0, 0, 1]), embeddings)), 3)
        0.002
    """

    fixed = ("distance",)

    def __init__(
        self,
        angle: float = 40.0,
        **kwargs: Unpack[PairArguments],
    ) -> None:
        super().__init__(**kwargs)
        if not 0 < angle <= 83:
            raise ValueError(f"angle must lie between 0 and 83 degrees, received {angle}.")
        self.angle = angle

    def terms(self, pairs: Pairs) -> Iterable[tuple[Tensor, Tensor]]:
        square_tangent = math.tan(math.radians(self.angle)) ** 2
        scale = 4.0 * square_tangent
        counted = pairs.negatives > 0
        wide = available("float64")
        # A product of two exponentials can underflow when the exponential of the sum would not.
        similarities, reference_similarities, negatives = (
            ops.cast(x, wide)
            for x in (pairs.similarities, pairs.reference_similarities, pairs.negatives)
        )
        of_anchor, anchor_shift = _exponentials(scale * similarities, counted)
        of_positive, positive_shift = _exponentials(
            scale * reference_similarities, ops.ones_like(counted[:1])
        )
        total = matmul(negatives * of_anchor, ops.transpose(of_positive))
        smallest = ops.full_like(total, float(np.finfo(wide).tiny))
        exponents = (
            ops.log(ops.where(total < smallest, smallest, total))
            + anchor_shift
            + ops.transpose(positive_shift)
            - 2.0 * (1.0 + square_tangent) * similarities
        )
        has_negative = ops.any(counted, axis=1, keepdims=True)
        terms = ops.where(has_negative, ops.softplus(exponents), 0.0)
        yield ops.cast(terms, pairs.positives.dtype), pairs.positives


def _exponentials(exponents, counted):
    """`exp(e - m)` of the exponents that count, and m, the largest of them in each row."""
    lowest = ops.min(exponents, axis=1, keepdims=True)
    shift = ops.max(ops.where(counted, exponents, lowest), axis=1, keepdims=True)
    shift = ops.stop_gradient(shift)
    return ops.exp(ops.where(counted, exponents - shift, 0.0)), shift
