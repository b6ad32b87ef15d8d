"""Instance loss (Zheng et al., ACM TOMM 2020)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf.losses._log_sums import log_sum_exp
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms


@dataclass(eq=False, repr=False)
class InstanceLoss(PairLoss):
    """Cross-entropy of the samples of a batch, each of which is the classifier of its class.

    `mean_i ( log Σ_j exp(γ s_ij) - γ mean_{c of the class of i} s_ic )` with cosine similarities s;
    both sums have the sample itself. "Dual-Path Convolutional Image-Text Embeddings with Instance
    Loss" (ACM TOMM 2020), where the classifier is learned; the samples are the classifier in the
    authors' later program and in pytorch-metric-learning. With a single sample of each class it
    spreads the samples apart. With references, such as data of another kind, the references are the
    classifier, and anchors without one of their class are left out.

    Args:
        scale: γ > 0.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]
        >>> round(float(InstanceLoss(1.0)([0, 0, 1], embeddings)), 3)
        0.636
    """

    scale: float = 64.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(scale=self.scale)

    def terms(self, pairs: Pairs) -> Terms:
        own = pairs.with_itself
        logits = self.scale * pairs.similarities
        num_own = ops.sum(own, axis=1)
        target = ops.sum(own * logits, axis=1) / ops.where(num_own > 0, num_own, 1.0)
        log_partition = log_sum_exp(logits, own + pairs.negatives)
        yield log_partition - target, num_own > 0
