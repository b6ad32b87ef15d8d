"""Dynamic soft margin loss (Zhang and Rusinkiewicz, ICCV 2019)."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_share, check_sizes
from gsp_tf.losses._layer import LossLayer
from gsp_tf.losses._pairs import Pairs
from gsp_tf.losses._rows import fold_marked
from gsp_tf.losses.histogram import triangular_histograms
from gsp_tf.ops import l2_normalize


class DynamicSoftMarginLoss(LossLayer):
    """Triplet loss without a margin, which weighs each triplet by its rank among recent ones.

    `mean over triplets of CDF(t) t` with `t = d_ap - d_an` for Euclidean distances d between
    L2-normalised embeddings. CDF is the cumulative histogram of t over this batch and, with falling
    weight, the last ones; it is not differentiated. "Learning Local Descriptors with a CDF-Based
    Dynamic Soft Margin" (ICCV 2019), over all triplets of the batch.

    As in pytorch-metric-learning, the old histogram sums to 1 and enters with 1 - momentum, and
    each triplet with momentum.

    Args:
        min_value: t of the first node of the histogram, below 0.
        num_bins: number of nodes, from `min_value` on, at distances of `-2 min_value / num_bins`.
        momentum: share of a triplet, in 0 to 1; 1 in the first batch.

    Weight, not trained: `histogram (num_bins,)`.

    Call: `loss(labels, embeddings, training=True)`; evaluation leaves the histogram as it is.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(DynamicSoftMarginLoss()([0, 0, 1], embeddings)), 3)
        0.248
    """

    def __init__(
        self, min_value: float = -2.0, num_bins: int = 10, momentum: float = 0.01, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not min_value < 0:
            raise ValueError(f"min_value must be negative, received {min_value}.")
        check_sizes(2, num_bins=num_bins)
        check_share(momentum=momentum)
        self.min_value = min_value
        self.num_bins = num_bins
        self.momentum = momentum

    def build(self, labels_shape, embeddings_shape):
        self.histogram = self.add_weight(
            name="histogram", shape=(self.num_bins,), initializer="zeros", trainable=False
        )

    def call(self, labels, embeddings, training=True):
        anchors = l2_normalize(embeddings)
        pairs = Pairs(anchors, anchors, labels, labels, exclude_self=True)
        distances, positives, negatives = pairs.distances, pairs.positives, pairs.negatives
        fixed = ops.stop_gradient(distances)

        def compared(columns, is_active):
            """Place of each triplet among the nodes, and whether it is one."""
            own = ops.take_along_axis(fixed, columns, axis=1)
            places = (own - fixed - self.min_value) * (self.num_bins / (-2.0 * self.min_value))
            return places, ops.where(is_active, negatives, 0.0)

        def add(columns, is_active, is_positive, counts):
            histograms = triangular_histograms(*compared(columns, is_active), self.num_bins)
            return (counts + ops.sum(histograms, axis=0),)

        (counts,) = fold_marked(
            positives > 0, add, (ops.zeros_like(ops.convert_to_tensor(self.histogram)),)
        )
        histogram = self._updated(counts, training)
        cumulated = ops.cumsum(histogram)

        def weigh(columns, is_active, is_positive, as_positive, as_negative):
            places, weights = compared(columns, is_active)
            nodes = ops.cast(ops.clip(ops.floor(places), 0, self.num_bins - 1), "int32")
            weights = weights * ops.take(cumulated, nodes)
            pulls = ops.sum(weights, axis=1, keepdims=True)
            return ops.where(is_positive, pulls, as_positive), as_negative + weights

        none = ops.zeros_like(positives)
        as_positive, as_negative = fold_marked(positives > 0, weigh, (none, none))
        total = ops.sum(ops.sum((as_positive - as_negative) * distances, axis=1))
        num_triplets = ops.sum(ops.sum(positives, axis=1) * ops.sum(negatives, axis=1))
        return total / ops.where(num_triplets > 0, num_triplets, 1.0)

    def _updated(self, counts, training):
        """The histogram with the triplets of a batch; it stays as it is if there are none."""
        old = ops.convert_to_tensor(self.histogram)
        momentum = ops.convert_to_tensor(self.momentum, old.dtype)
        momentum = ops.where(ops.sum(old) > 0, momentum, 1.0)
        new = (1.0 - momentum) * old + momentum * counts
        total = ops.sum(new)
        new = ops.where(ops.sum(counts) > 0, new / ops.where(total > 0, total, 1.0), old)
        if training:
            self.histogram.assign(new)
        return new
