"""NT-Xent loss (Sohn 2016; Chen et al., ICML 2020)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf._backend import softplus
from gsp_tf._typing import Tensor
from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses.distances import Distance, DistanceName


@dataclass(eq=False, repr=False)
class NTXentLoss(PairLoss):
    """Cross-entropy of every positive among the negatives of its anchor (InfoNCE).

    `mean over positive pairs of log(1 + Σ_negatives exp((s_in - s_ip) / T))` with cosine
    similarities s. "A Simple Framework for Contrastive Learning of Visual Representations" (ICML
    2020), eq. 1, for any number of positives: a positive does not compete with the other positives
    of its anchor, as it does in `SupervisedContrastiveLoss`. A pair whose anchor has no negative
    costs 0.

    Args:
        temperature: T > 0.
        distance: in place of that of the formula, as in `PairLoss`.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(NTXentLoss(1.0)([0, 0, 1], embeddings)), 3)
        0.224
    """

    takes_grades = True

    temperature: float = 0.07
    distance: Distance | DistanceName | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(temperature=self.temperature)

    def terms(self, pairs: Pairs) -> Terms:
        logits = pairs.similarities / self.temperature
        yield terms_of_negatives(logits, logits, pairs)


def terms_of_negatives(own: Tensor, others: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Terms `log(1 + Σ_negatives exp(o_in - z_ip))` of own z and others o, and their weights."""
    of_negatives = log_sum_exp(others, pairs.negatives)[:, None]
    has_negative = ops.any(pairs.negatives > 0, axis=1, keepdims=True)
    return ops.where(has_negative, softplus(of_negatives - own), 0.0), pairs.positives
