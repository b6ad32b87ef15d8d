"""Margin-based loss (Wu et al., ICCV 2017)."""

import keras
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._pairs import Miner, PairLoss, Pairs
from gsp_tf.losses._reductions import weighted_mean


@keras.saving.register_keras_serializable("gsp_tf")
class MarginLoss(PairLoss):
    """Keeps positives below and negatives above a boundary.

    `[α + d_ap - β]_+ + [α + β - d_an]_+` over all triplets of an anchor, a positive and a negative,
    divided by the number of terms that are not 0, with Euclidean distances d. Each term of a
    triplet depends on one pair only, so the sum over triplets is a sum over pairs. "Sampling
    Matters in Deep Embedding Learning" (ICCV 2017), eq. 10 (thesis, eq. 2.1.3).
    `DistanceWeightedMiner` implements its sampling, and `ClassMarginLoss` learns β. The GSP
    authors' code averages each kind of term separately; this loss follows Wu et al. With
    `mean_over_pairs=True` it is eq. 3 of A-grouping (Xu et al.), where α is called m and β is
    called η, under the mean of its eq. 14.

    Args:
        margin: α, half the width of the band around the boundary.
        beta: β, the boundary, a distance.
        mean_over_pairs: average over all pairs, each once, including those that cost nothing.
        normalize, miner, name: as in `PairLoss`.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(MarginLoss()(np.array([0, 0, 1]), embeddings)), 3)
        0.942
    """

    def __init__(
        self,
        margin: float = 0.2,
        beta: float = 1.2,
        mean_over_pairs: bool = False,
        normalize: bool = True,
        miner: Miner | None = None,
        name: str = "margin_loss",
    ) -> None:
        super().__init__(normalize, miner, name)
        self.margin = margin
        self.beta = beta
        self.mean_over_pairs = mean_over_pairs

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        return weighted_mean(*self.terms(pairs, self.beta))

    def terms(self, pairs: Pairs, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        """The cost of every pair, and its weight in the mean.

        Terms and weights are `(2 A, R)`, those of positive pairs before those of negative ones.
        `beta` is a number, or one per anchor `(A, 1)`.
        """
        terms = ops.concatenate(
            [
                ops.relu(self.margin + pairs.distances - beta),
                ops.relu(self.margin + beta - pairs.distances),
            ]
        )
        if self.mean_over_pairs:
            return terms, ops.concatenate([pairs.positives, pairs.negatives])
        num_positives = ops.sum(pairs.positives, axis=1, keepdims=True)
        num_negatives = ops.sum(pairs.negatives, axis=1, keepdims=True)
        triplets = ops.concatenate(
            [pairs.positives * num_negatives, pairs.negatives * num_positives]
        )
        return terms, ops.where(ops.not_equal(terms, 0), triplets, 0.0)
