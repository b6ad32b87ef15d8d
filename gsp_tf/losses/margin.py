"""Margin-based loss (Wu et al., ICCV 2017)."""

from dataclasses import dataclass

import keras
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@keras.saving.register_keras_serializable("gsp_tf")
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
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(MarginLoss()(np.array([0, 0, 1]), embeddings)), 3)
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
