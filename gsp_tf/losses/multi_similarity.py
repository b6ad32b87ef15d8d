"""Multi-similarity loss (Wang et al., CVPR 2019)."""

from collections.abc import Iterable
from typing import Unpack

import keras

from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairArguments, PairLoss
from gsp_tf.losses._pairs import Pairs
from gsp_tf.losses._sums import log1p_sum_exp


@keras.saving.register_keras_serializable("gsp_tf")
class MultiSimilarityLoss(PairLoss):
    """Weighs every pair by its similarity and by those of its anchor's other pairs (MS).

    `mean_i ( (1/α) log(1 + Σ_positives exp(-α (s_ij - λ))) + (1/β) log(1 + Σ_negatives
    exp(β (s_ij - λ))) )` with cosine similarities s. "Multi-Similarity Loss with General Pair
    Weighting for Deep Metric Learning" (CVPR 2019), eq. 15; its mining (eqs. 11, 12) is
    `MultiSimilarityMiner`.

    Args:
        alpha: α, scale of the positives.
        beta: β, scale of the negatives.
        base: λ, the similarity at which the exponents are 0.
        kwargs: arguments of `PairLoss`, such as `miner`, `distance` and `reduction`.

    Raises:
        ValueError: if a scale is not positive.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(MultiSimilarityLoss()(np.array([0, 0, 1]), embeddings)), 3)
        0.606
    """

    takes_grades = True

    def __init__(
        self,
        alpha: float = 2.0,
        beta: float = 50.0,
        base: float = 0.5,
        **kwargs: Unpack[PairArguments],
    ) -> None:
        super().__init__(**kwargs)
        if not (alpha > 0 and beta > 0):
            raise ValueError(f"alpha and beta must be positive, received {alpha} and {beta}.")
        self.alpha = alpha
        self.beta = beta
        self.base = base

    def terms(self, pairs: Pairs) -> Iterable[tuple[Tensor, Tensor]]:
        shifted = pairs.similarities - self.base
        attraction = log1p_sum_exp(-self.alpha * shifted, pairs.positives) / self.alpha
        repulsion = log1p_sum_exp(self.beta * shifted, pairs.negatives) / self.beta
        yield attraction + repulsion, pairs.every_anchor
