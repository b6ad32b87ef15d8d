"""Lifted structured loss (Oh Song et al., CVPR 2016)."""

import keras
from keras import ops

from gsp_tf.losses.pair import PairLoss
from gsp_tf.losses.reductions import log_sum_exp, weighted_mean


@keras.saving.register_keras_serializable("gsp_tf")
class LiftedStructureLoss(PairLoss):
    """Sets every positive pair against all negatives of both its samples.

    `mean over positives of (1/2) [ d_ij + log( Σ_{k negative of i} exp(m - d_ik) + Σ_{l negative of
    j} exp(m - d_jl) ) ]_+^2` with Euclidean distances d. "Deep Metric Learning via Lifted
    Structured Feature Embedding" (CVPR 2016), eq. 4; equal to `tfa.losses.LiftedStructLoss`. A pair
    without any negative costs 0.

    Args:
        margin: m, a distance.
        normalize: L2-normalise the embeddings first.
        miner: chooses or weighs the pairs; `None` takes all.
        name: name of the loss.

    Call: `loss(labels, embeddings)`, labels `(B,)` or `(B, 1)`, embeddings `(B, D)`; a scalar.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(LiftedStructureLoss()(np.array([0, 0, 1]), embeddings)), 3)
        2.301
    """

    def __init__(self, margin=1.0, normalize=True, miner=None, name="lifted_structure_loss"):
        super().__init__(normalize, miner, name)
        self.margin = margin

    def pairs_loss(self, pairs):
        exponents = self.margin - pairs.distances
        of_anchor = log_sum_exp(exponents, pairs.negatives, axis=1)[:, None]
        of_reference = log_sum_exp(exponents, pairs.negatives, axis=0)[None, :]
        anchor_has = ops.any(pairs.negatives > 0, axis=1)[:, None]
        reference_has = ops.any(pairs.negatives > 0, axis=0)[None, :]
        repulsion = ops.where(
            ops.logical_and(anchor_has, reference_has),
            ops.logaddexp(of_anchor, of_reference),
            of_anchor + of_reference,
        )
        terms = ops.where(
            ops.logical_or(anchor_has, reference_has), ops.relu(pairs.distances + repulsion), 0.0
        )
        return weighted_mean(0.5 * ops.square(terms), pairs.positives)

    def get_config(self):
        return {**super().get_config(), "margin": self.margin}
