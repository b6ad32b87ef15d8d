"""Histogram loss (Ustinova and Lempitsky, NeurIPS 2016)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._backend import segment_sum
from gsp_tf._typing import Tensor
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs


@dataclass(eq=False, repr=False)
class HistogramLoss(PairLoss):
    """Probability that a negative pair is more similar than a positive pair.

    `Σ_r h⁻_r Σ_{q<=r} h⁺_q`, where h⁺ and h⁻ are the histograms of the cosine similarities of all
    positive and of all negative pairs, in triangular bins around R + 1 nodes on [-1, 1]. "Learning
    Deep Embeddings with Histogram Loss" (NeurIPS 2016). It is 0 without a positive or
    without a negative pair.

    Args:
        num_bins: R, number of intervals of the histogram, which has R + 1 nodes.

    Embeddings are always L2-normalised: the bins cover cosine similarities.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(HistogramLoss()([0, 0, 1], embeddings)), 3)
        1.0
    """

    takes_grades = True

    num_bins: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.normalize:
            raise ValueError("HistogramLoss takes unit vectors, received normalize=False.")
        if self.reduction is not None:
            raise ValueError(f"HistogramLoss takes no reduction, received {self.reduction!r}.")
        check_sizes(num_bins=self.num_bins)

    def pairs_loss(self, pairs: Pairs) -> Tensor:
        places = (pairs.similarities + 1.0) * (self.num_bins / 2.0)

        def histogram(weights):
            total = ops.sum(ops.sum(weights, axis=1))
            counts = triangular_histograms(places, weights, self.num_bins + 1)
            return ops.sum(counts, axis=0) / ops.where(total > 0, total, 1.0)

        return ops.sum(histogram(pairs.negatives) * ops.cumsum(histogram(pairs.positives)))


def triangular_histograms(places: Tensor, weights: Tensor, num_nodes: int) -> Tensor:
    """Sums `(A, num_nodes)` of the weights of each row, shared by the nodes around their places."""
    # Node i is at place i. Places beyond the first or the last node count as there.
    num_rows = ops.shape(places)[0]
    places = ops.clip(places, 0.0, num_nodes - 1.0)
    first = ops.minimum(ops.floor(ops.stop_gradient(places)), num_nodes - 2.0)
    share = places - first
    first = ops.cast(first, "int32") + num_nodes * ops.arange(num_rows, dtype="int32")[:, None]

    def summed(values, nodes):
        values, nodes = (ops.reshape(x, (-1,)) for x in (values, nodes))
        return segment_sum(values, nodes, num_rows * num_nodes)

    sums = summed(weights * (1.0 - share), first) + summed(weights * share, first + 1)
    return ops.reshape(sums, (num_rows, num_nodes))
