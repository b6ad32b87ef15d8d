"""FastAP loss (Cakir et al., CVPR 2019)."""

from dataclasses import dataclass

from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms


@dataclass(eq=False, repr=False)
class FastAPLoss(PairLoss):
    """One minus the average precision of each anchor's ranking, from soft histograms.

    `1 - mean_i (1 / N_i⁺) Σ_k h_k⁺ H_k⁺ / H_k` over the anchors that have a positive. h⁺ is the
    histogram of the squared distances of the positives, in triangular bins on [0, 4]. H⁺ and H are
    the cumulative histograms of the positives and of all samples. "Deep Metric Learning to Rank"
    (CVPR 2019), eqs. 8 to 10. The loss makes one pass over the B x B distances per bin.

    Args:
        num_bins: L, number of intervals of the histogram, which has L + 1 bins.

    Embeddings are always L2-normalised: the bins cover the distances of unit vectors.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(FastAPLoss()([0, 0, 1], embeddings)), 3)
        0.5
    """

    num_bins: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.normalize:
            raise ValueError("The bins of FastAPLoss cover unit vectors, received normalize=False.")
        check_sizes(num_bins=self.num_bins)

    def terms(self, pairs: Pairs) -> Terms:
        places = pairs.squared_distances * (self.num_bins / 4.0)
        num_positives = ops.sum(pairs.positives, axis=1)
        precision = ops.zeros_like(num_positives)
        below = ops.zeros_like(num_positives)
        for edge in range(self.num_bins + 1):
            # Share of a pair in the cumulative bins: 1 up to this edge, 0 from the next.
            share = ops.clip(edge + 1.0 - places, 0.0, 1.0)
            positive = ops.sum(pairs.positives * share, axis=1)
            both = positive + ops.sum(pairs.negatives * share, axis=1)
            ratio = ops.where(both > 0, positive / ops.where(both > 0, both, 1.0), 0.0)
            precision = precision + (positive - below) * ratio
            below = positive
        has_positive = num_positives > 0
        average = precision / ops.where(has_positive, num_positives, 1.0)
        yield 1.0 - average, has_positive
