"""Soft nearest neighbour loss (Salakhutdinov and Hinton 2007; Frosst et al., ICML 2019)."""

import keras
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._pairs import Distance, Miner, PairLoss, Pairs, check_distance, distances_named
from gsp_tf.losses._reductions import log_sum_exp, weighted_mean


@keras.saving.register_keras_serializable("gsp_tf")
class SoftNearestNeighborLoss(PairLoss):
    """Cross-entropy of drawing a neighbour of one's own class, near ones most likely.

    `mean_i -log( Σ_positives exp(-d_ij / T) / Σ_{j≠i} exp(-d_ij / T) )` over the anchors that have
    a positive. "Analyzing and Improving Representations with the Soft Nearest Neighbor Loss" (ICML
    2019), eq. 1, with squared Euclidean distances d. TensorFlow Similarity divides the sum by the
    size of the batch, anchors without a positive included, and adds 1e-9 in the logarithm.

    Args:
        temperature: T > 0, in units of the distance.
        distance: "euclidean", "squared_euclidean", or "angular", 1 minus the cosine similarity.
        normalize, miner, name: as in `PairLoss`.

    Raises:
        ValueError: if the temperature is not positive, or the distance is none of these.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], "float32")
        >>> round(float(SoftNearestNeighborLoss()(np.array([0, 0, 1]), embeddings)), 3)
        0.063
    """

    def __init__(
        self,
        temperature: float = 1.0,
        distance: Distance = "squared_euclidean",
        normalize: bool = True,
        miner: Miner | None = None,
        name: str = "soft_nearest_neighbor_loss",
    ) -> None:
        super().__init__(normalize, miner, name)
        check_distance(distance)
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, received {temperature}.")
        self.temperature = temperature
        self.distance = distance

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        return neighbor_loss(-distances_named(self.distance, pairs) / self.temperature, pairs)


def neighbor_loss(logits: Tensor, pairs: Pairs) -> Tensor:
    """Mean of `log Σ_j exp(z_ij) - log Σ_positives exp(z_ij)` of logits z `(A, R)`."""
    among_own = log_sum_exp(logits, pairs.positives)
    among_all = log_sum_exp(logits, pairs.positives + pairs.negatives)
    return weighted_mean(among_all - among_own, ops.any(pairs.positives > 0, axis=1))
