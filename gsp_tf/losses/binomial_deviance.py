"""Binomial deviance loss (Yi et al. 2014; Ustinova and Lempitsky 2016)."""

import keras
from keras import ops

from gsp_tf.losses.pair import PairLoss
from gsp_tf.losses.reductions import weighted_mean


@keras.saving.register_keras_serializable("gsp_tf")
class BinomialDevianceLoss(PairLoss):
    """Logistic regression of "same class" on the similarity of a pair.

    `mean log(1 + exp(-α (s_ij - m))) over positives + mean log(1 + exp(α C (s_ij - m))) over
    negatives` with cosine similarities s. "Deep Metric Learning for Practical Person
    Re-Identification" (Yi, Lei, Li 2014), eq. 10, in the form of the A-grouping paper, whose
    table 1 gives the factor C to the negatives (printed the other way round).

    Args:
        alpha: α, scale of the similarities (β_1 of the paper).
        margin: m, the similarity between the two classes (β_2 of the paper).
        negative_weight: C, factor of the negatives' exponent.
        normalize: L2-normalise the embeddings first.
        miner: chooses or weighs the pairs; `None` takes all.
        name: name of the loss.

    Call: `loss(labels, embeddings)`, labels `(B,)` or `(B, 1)`, embeddings `(B, D)`; a scalar.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], "float32")
        >>> round(float(BinomialDevianceLoss()(np.array([0, 0, 1]), embeddings)), 3)
        0.598
    """

    def __init__(
        self,
        alpha=2.0,
        margin=0.5,
        negative_weight=25.0,
        normalize=True,
        miner=None,
        name="binomial_deviance_loss",
    ):
        super().__init__(normalize, miner, name)
        self.alpha = alpha
        self.margin = margin
        self.negative_weight = negative_weight

    def pairs_loss(self, pairs):
        exponents = self.alpha * (pairs.similarities - self.margin)
        # A pair is positive or negative: one softplus serves both.
        terms = ops.softplus(
            ops.where(pairs.positives > 0, -exponents, self.negative_weight * exponents)
        )
        return weighted_mean(terms, pairs.positives) + weighted_mean(terms, pairs.negatives)

    def get_config(self):
        return {
            **super().get_config(),
            "alpha": self.alpha,
            "margin": self.margin,
            "negative_weight": self.negative_weight,
        }
