"""Supervised contrastive loss (Khosla et al., NeurIPS 2020)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class SupervisedContrastiveLoss(PairLoss):
    """Cross-entropy of every positive among all other samples of the batch.

    `mean_i mean_positives ( log Σ_a exp(s_ia / T) - s_ip / T )` with cosine similarities s, where a
    runs over all positives and negatives of i, and i over the anchors that have a positive.
    "Supervised Contrastive Learning" (NeurIPS 2020), eq. 2 (L_out).

    Args:
        temperature: T > 0.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(SupervisedContrastiveLoss(1.0)([0, 0, 1], embeddings)), 3)
        0.224
    """

    takes_grades = True

    temperature: float = 0.1
    distance: Distance | DistanceName | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(temperature=self.temperature)

    def terms(self, pairs: Pairs) -> Terms:
        logits = pairs.similarities / self.temperature
        log_partition = log_sum_exp(logits, pairs.positives + pairs.negatives)[:, None]
        num_positives = ops.sum(pairs.positives, axis=1, keepdims=True)
        shares = pairs.positives / ops.where(num_positives > 0, num_positives, 1.0)
        costs = ops.sum(shares * (log_partition - logits), axis=1)
        yield costs, ops.any(pairs.positives > 0, axis=1)
