"""Similarity mixup (Patel, Tolias, Matas, CVPR 2022)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_at_least
from gsp_tf._integers import checked_seed
from gsp_tf.losses._pair_loss import PairLoss, PairWrapper
from gsp_tf.losses._pairs import Pairs
from gsp_tf.ops import l2_normalize


@keras.saving.register_keras_serializable("gsp_tf")
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

    Raises:
        ValueError: if the loss is not a pair loss, or `num_mixed` is below 1.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import RecallAtKLoss
        >>> loss = SimilarityMixup(RecallAtKLoss([1]), seed=0)
        >>> embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], "float32")
        >>> 0 < float(loss(np.array([0, 0, 1]), embeddings)) < 1
        True
    """

    takes_relations = False

    def __init__(
        self, loss: PairLoss, num_mixed: int = 1, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(loss, **kwargs)
        check_at_least(1, num_mixed=num_mixed)
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
