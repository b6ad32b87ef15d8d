"""Multi-level distance regularisation (Kim and Park, AAAI 2021)."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_at_least
from gsp_tf._backend import available
from gsp_tf.losses._pair_loss import PairLoss, PairWrapper
from gsp_tf.ops import pairwise_distances


class MultiLevelDistanceRegularization(PairWrapper):
    """Pair loss plus a pull of all distances of the batch to a few learned levels (MLDR).

    `L + w mean_{i≠j} min_l |(d_ij - μ) / σ - s_l|` with Euclidean distances d of the embeddings
    without normalisation, their running mean μ and deviation σ (momentum 0.9, without gradient) and
    the levels s. "Multi-level Distance Regularization for Deep Metric Learning" (AAAI 2021), eqs. 3
    to 6. The pair loss receives the embeddings divided by their mean distance, as in the authors'
    training. This affects only a loss with `normalize=False`.

    Args:
        loss: any pair loss.
        weight: w >= 0, weight of the regularisation.
        levels: initial s, at least one, in units of σ from the mean distance.

    Weights: `levels (number of levels,)`, trained; the scalars `mean`, `deviation` and
    `num_updates`, not trained.

    Call: `loss(labels, embeddings, training=True)`. Only training updates the running mean and
    deviation.

    Example:
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> loss = MultiLevelDistanceRegularization(ContrastiveLoss(), weight=0.5)
        >>> embeddings = [[0.0, 1.0], [0.0, 2.0], [0.0, 5.0]]
        >>> round(float(loss([0, 0, 0], embeddings)), 3)
        0.445
    """

    momentum = 0.9
    normalize = False
    kept_as = {"levels": "initial_levels"}  # `levels` is the trained weight

    unscheduled = ("levels",)

    def __init__(
        self,
        loss: PairLoss,
        weight: float = 1.0,
        levels: Sequence[float] = (-3.0, 0.0, 3.0),
        **kwargs: Any,
    ) -> None:
        super().__init__(loss, **kwargs)
        check_at_least(0, weight=weight)
        if not len(levels):
            raise ValueError("levels must hold at least one level, received none.")
        self.weight = weight
        self.initial_levels = tuple(map(float, levels))

    def build(self, labels_shape, embeddings_shape):
        self.levels = self.add_weight(
            name="levels",
            shape=(len(self.initial_levels),),
            initializer=lambda shape, dtype: ops.convert_to_tensor(self.initial_levels, dtype),
        )
        self.mean, self.deviation = (
            self.add_weight(name=name, shape=(), initializer="zeros", trainable=False)
            for name in ("mean", "deviation")
        )
        self.num_updates = self.add_weight(
            name="num_updates",
            shape=(),
            dtype=available("int64"),
            initializer="zeros",
            trainable=False,
        )

    def call(self, labels, embeddings, training=True):
        distances = pairwise_distances(embeddings)
        batch_size = ops.shape(distances)[0]
        others = 1.0 - ops.eye(batch_size, dtype=distances.dtype)
        num_pairs = ops.maximum(ops.sum(others), 1.0)
        mean = ops.sum(others * distances) / num_pairs
        variance = ops.sum(others * ops.square(distances - mean)) / num_pairs
        # Smaller numbers have few digits; TensorFlow and JAX take them for 0.
        is_normal = variance >= np.finfo(keras.backend.standardize_dtype(variance.dtype)).tiny
        variance = ops.where(is_normal, variance, 0.0)
        if training:
            self._update(ops.stop_gradient(mean), ops.stop_gradient(ops.sqrt(variance)))
        running_mean, deviation = map(ops.convert_to_tensor, (self.mean, self.deviation))
        deviation = ops.where(deviation > 1e-6 * running_mean, deviation, 1.0)
        normalized = (distances - running_mean) / deviation
        levels = ops.convert_to_tensor(self.levels)
        off_level = ops.min(ops.abs(normalized[:, :, None] - levels), axis=-1)
        regularization = ops.sum(others * off_level) / num_pairs
        scaled = embeddings / ops.where(mean > 0, mean, 1.0)
        return self.loss(labels, scaled) + self.weight * regularization

    def _update(self, mean, deviation):
        kept = self.momentum * ops.cast(self.num_updates > 0, mean.dtype)
        for running, value in ((self.mean, mean), (self.deviation, deviation)):
            running.assign(kept * ops.convert_to_tensor(running) + (1.0 - kept) * value)
        self.num_updates.assign(self.num_updates + 1)
