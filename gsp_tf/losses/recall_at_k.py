"""Recall@k surrogate loss and similarity mixup (Patel, Tolias, Matas, CVPR 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_positive, check_sizes, checked_seed
from gsp_tf.losses._pair_loss import PairLoss, PairWrapper
from gsp_tf.losses._pairs import Pairs, Terms
from gsp_tf.losses._rows import soft_counts_above
from gsp_tf.ops import l2_normalize


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

    Args:
        recall_at: the k, at least one.
        rank_temperature: τ_2 > 0, a similarity.
        recall_temperature: τ_1 > 0, a rank.
        counts_query: rank the anchor itself among the samples of its batch.

    Example:
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> round(float(RecallAtKLoss([1])([0, 0, 1], embeddings)), 3)
        0.731
    """

    recall_at: Sequence[int] = (1, 2, 4, 8, 16)
    rank_temperature: float = 0.01
    recall_temperature: float = 1.0
    counts_query: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(self.recall_at):
            raise ValueError("recall_at must hold at least one number, received none.")
        for k in self.recall_at:
            check_sizes(recall_at=k)
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


class SimilarityMixup(PairWrapper):
    """Pair loss of a batch with virtual samples, mixtures of two samples of a class (SiMix).

    The similarities of a virtual sample are `λ s_a + (1 - λ) s_b` with those of samples a and b of
    one class and λ uniform in 0 to 1, which is the mixture `λ x_a + (1 - λ) x_b` of the normalised
    embeddings, not normalised again. "Recall@k Surrogate Loss with Large Batches and Similarity
    Mixup" (CVPR 2022), for `RecallAtKLoss`; any pair loss works.

    Each sample is mixed with the `num_mixed` next ones of its class, in cyclic order. With `n =
    2 num_mixed + 1` samples of a class these are all its pairs. No sample is mixed with itself: one
    of a class of n has at most n - 1 mixtures. In evaluation the loss is that of the batch.

    Args:
        loss: any pair loss.
        num_mixed: number of virtual samples for each sample.
        seed: of the λ.

    Call: `loss(labels, embeddings, training=True)`.

    Example:
        >>> from gsp_tf.losses import RecallAtKLoss
        >>> loss = SimilarityMixup(RecallAtKLoss([1]), seed=0)
        >>> embeddings = [[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]]
        >>> 0 < float(loss([0, 0, 1], embeddings)) < 1
        True
    """

    takes_relations = False

    def __init__(
        self, loss: PairLoss, num_mixed: int = 1, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(loss, **kwargs)
        check_sizes(num_mixed=num_mixed)
        self.num_mixed = num_mixed
        self.seed = seed
        self.mixing_seed = keras.random.SeedGenerator(checked_seed(seed))

    def call(self, labels, embeddings, training=True):
        if not training:
            return self.loss(labels, embeddings)
        anchors = l2_normalize(embeddings) if self.loss.normalize else embeddings
        same = labels[:, None] == labels[None, :]
        place = ops.sum(ops.tril(ops.cast(same, "int32")), axis=1) - 1  # within the class
        size = ops.sum(ops.cast(same, "int32"), axis=1)
        samples, numbers, counted = [anchors], [labels], [size > 0]
        for step in range(1, self.num_mixed + 1):
            target = ((place + step) % size)[:, None]
            is_partner = ops.logical_and(same, place[None, :] == target)
            partners = ops.take(anchors, ops.argmax(ops.cast(is_partner, "int32"), axis=1), axis=0)
            rates = keras.random.uniform(
                (ops.shape(anchors)[0], 1), dtype=self.compute_dtype, seed=self.mixing_seed
            )
            samples.append(rates * anchors + (1.0 - rates) * partners)
            numbers.append(labels)
            counted.append(size > step)  # else the partner is the sample itself
        samples, numbers, counted = map(ops.concatenate, (samples, numbers, counted))
        pairs = Pairs(samples, samples, numbers, numbers, exclude_self=True, counted=counted)
        return self.loss.mined_loss(pairs)
