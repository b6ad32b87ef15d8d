"""NT-Xent loss (Sohn 2016; Chen et al., ICML 2020)."""

import keras
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._pairs import Miner, PairLoss, Pairs
from gsp_tf.losses._reductions import log_sum_exp, weighted_mean


@keras.saving.register_keras_serializable("gsp_tf")
class NTXentLoss(PairLoss):
    """Cross-entropy of every positive among the negatives of its anchor (InfoNCE).

    `mean over positive pairs of log(1 + Σ_negatives exp((s_in - s_ip) / T))` with cosine
    similarities s. "A Simple Framework for Contrastive Learning of Visual Representations" (ICML
    2020), eq. 1, for any number of positives: a positive does not compete with the other positives
    of its anchor, as it does in `SupervisedContrastiveLoss`. A pair whose anchor has no negative
    costs 0.

    Args:
        temperature: T > 0.
        normalize, miner, name: as in `PairLoss`.

    Raises:
        ValueError: if the temperature is not positive.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], "float32")
        >>> round(float(NTXentLoss(1.0)(np.array([0, 0, 1]), embeddings)), 3)
        0.224
    """

    def __init__(
        self,
        temperature: float = 0.07,
        normalize: bool = True,
        miner: Miner | None = None,
        name: str = "nt_xent_loss",
    ) -> None:
        super().__init__(normalize, miner, name)
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, received {temperature}.")
        self.temperature = temperature

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        logits = pairs.similarities / self.temperature
        return mean_cross_entropy(logits, logits, pairs)


def mean_cross_entropy(own: Tensor, others: Tensor, pairs: Pairs) -> Tensor:
    """Mean over positive pairs of `log(1 + Σ_negatives exp(o_in - z_ip))`, own z and others o."""
    of_negatives = log_sum_exp(others, pairs.negatives)[:, None]
    has_negative = ops.any(pairs.negatives > 0, axis=1, keepdims=True)
    terms = ops.where(has_negative, ops.softplus(of_negatives - own), 0.0)
    return weighted_mean(terms, pairs.positives)
