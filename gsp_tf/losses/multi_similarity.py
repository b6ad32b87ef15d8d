"""Multi-similarity loss (Wang et al., CVPR 2019)."""

import keras

from gsp_tf._typing import Tensor
from gsp_tf.losses._pairs import Miner, PairLoss, Pairs
from gsp_tf.losses._reductions import log1p_sum_exp


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
        normalize, miner, name: as in `PairLoss`.

    Raises:
        ValueError: if a scale is not positive.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(MultiSimilarityLoss()(np.array([0, 0, 1]), embeddings)), 3)
        0.606
    """

    def __init__(
        self,
        alpha: float = 2.0,
        beta: float = 50.0,
        base: float = 0.5,
        normalize: bool = True,
        miner: Miner | None = None,
        name: str = "multi_similarity_loss",
    ) -> None:
        super().__init__(normalize, miner, name)
        if not (alpha > 0 and beta > 0):
            raise ValueError(f"alpha and beta must be positive, received {alpha} and {beta}.")
        self.alpha = alpha
        self.beta = beta
        self.base = base

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        shifted = pairs.similarities - self.base
        attraction = log1p_sum_exp(-self.alpha * shifted, pairs.positives) / self.alpha
        repulsion = log1p_sum_exp(self.beta * shifted, pairs.negatives) / self.beta
        return pairs.mean_over_anchors(attraction + repulsion)
