"""Recall@k surrogate loss (Patel, Tolias, Matas, CVPR 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass

import keras
from keras import ops

from gsp_tf._arguments import check_positive
from gsp_tf.losses._pair_loss import PairLoss
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses._rows import soft_counts_above


@keras.saving.register_keras_serializable("gsp_tf")
@dataclass(eq=False, repr=False)
class RecallAtKLoss(PairLoss):
    """One minus the recall among the first k of each anchor's ranking, for several k (RS@k).

    `1 - mean_i mean_k min(k, Σ_{j in P_i} sigmoid((k - r_ij) / τ_1)) / min(k, |P_i|)` over the
    anchors that have a positive, with the soft rank `r_ij = 1 + Σ_{l≠j} sigmoid((s_il - s_ij) /
    τ_2)` and cosine similarities s. "Recall@k Surrogate Loss with Large Batches and Similarity
    Mixup" (CVPR 2022). The norm `min(k, |P_i|)` and the bound `k` are those of the
    authors' program. `SimilarityMixup(RecallAtKLoss())` adds the paper's mixed samples.

    In the program, the query itself takes part in its own ranking, and comes first. This raises
    every rank by about 1, so that k there is about k - 1. `counts_query=True` does the same.

    The loss compares each positive of an anchor with all samples: B^2 sigmoids for each of the
    positives of an anchor, and never B^3 terms at once.

    Args:
        recall_at: the k.
        rank_temperature: τ_2 > 0, a similarity.
        recall_temperature: τ_1 > 0, a rank.
        counts_query: rank the anchor itself among the samples of its batch.

    Raises:
        ValueError: if there is no k, a k is below 1, or a temperature is not positive.

    Example:
        >>> import numpy as np
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> round(float(RecallAtKLoss([1])(np.array([0, 0, 1]), embeddings)), 3)
        0.731
    """

    recall_at: Sequence[int] = (1, 2, 4, 8, 16)
    rank_temperature: float = 0.01
    recall_temperature: float = 1.0
    counts_query: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(self.recall_at) or min(self.recall_at) < 1:
            raise ValueError(
                f"recall_at must hold numbers of at least 1, received {self.recall_at}."
            )
        check_positive(
            rank_temperature=self.rank_temperature, recall_temperature=self.recall_temperature
        )
        self.recall_at = tuple(self.recall_at)

    def terms(self, pairs: Pairs) -> Terms:
        positives = pairs.positives
        counted = (pairs.with_itself if self.counts_query else positives) + pairs.negatives
        (before,) = soft_counts_above(
            pairs.similarities, positives > 0, (counted,), self.rank_temperature
        )
        num_positives = ops.sum(positives, axis=1)
        recall = 0.0
        for k in self.recall_at:
            within = ops.sigmoid((k - 1.0 - before) / self.recall_temperature)
            found = ops.minimum(ops.sum(positives * within, axis=1), k)
            recall = recall + found / ops.clip(num_positives, 1e-9, k)
        yield 1.0 - recall / len(self.recall_at), num_positives > 0
