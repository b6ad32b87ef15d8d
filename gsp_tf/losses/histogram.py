"""Histogram loss (Ustinova and Lempitsky, NeurIPS 2016)."""

from typing import Unpack

import keras
from keras import ops

from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairArguments, PairLoss
from gsp_tf.losses._pairs import Pairs


@keras.saving.register_keras_serializable("gsp_tf")
class HistogramLoss(PairLoss):
    """Probability that a negative pair is more similar than a positive pair.

    `Σ_r h⁻_r Σ_{q<=r} h⁺_q`, where h⁺ and h⁻ are the histograms of the cosine similarities of all
    positive and of all negative pairs, in triangular bins around R + 1 nodes on [-1, 1]. "Learning
    Deep Embeddings with Histogram Loss" (NeurIPS 2016). It is 0 without a positive or
    without a negative pair.

    pytorch-metric-learning 2.9 leaves out the negative pairs of two samples that have no positive,
    and stops with an error at pairs of similarity 1. Here both count, as in the paper.

    Args:
        num_bins: R, number of intervals of the histogram, which has R + 1 nodes.
        kwargs: arguments of `PairLoss`, such as `miner` and `reduction`.

    Embeddings are always L2-normalised: the bins cover cosine similarities.

    Raises:
        ValueError: if `num_bins` is below 1.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(HistogramLoss()(np.array([0, 0, 1]), embeddings)), 3)
        1.0
    """

    fixed = ("normalize", "distance")

    def __init__(self, num_bins: int = 100, **kwargs: Unpack[PairArguments]) -> None:
        super().__init__(**kwargs)
        if num_bins < 1:
            raise ValueError(f"num_bins must be at least 1, received {num_bins}.")
        self.num_bins = num_bins

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        places = ops.clip((pairs.similarities + 1.0) * (self.num_bins / 2.0), 0.0, self.num_bins)
        first = ops.minimum(ops.floor(ops.stop_gradient(places)), self.num_bins - 1.0)
        share = places - first
        first = ops.reshape(ops.cast(first, "int32"), (-1,))

        def histogram(weights):
            def at(nodes, x):
                return ops.segment_sum(ops.reshape(x, (-1,)), nodes, self.num_bins + 1)

            total = ops.sum(ops.sum(weights, axis=1))
            counts = at(first, weights * (1.0 - share)) + at(first + 1, weights * share)
            return counts / ops.where(total > 0, total, 1.0)

        return ops.sum(histogram(pairs.negatives) * ops.cumsum(histogram(pairs.positives)))
