"""Mining of the multi-similarity loss (Wang et al., CVPR 2019)."""

import keras
from keras import ops

from gsp_tf.losses.miners.miner import Miner


@keras.saving.register_keras_serializable("gsp_tf")
class MultiSimilarityMiner(Miner):
    """Keeps the negatives nearer than the farthest positive, and the positives the other way round.

    A negative stays if `s_an > min_p s_ap - ε`, a positive if `s_ap < max_n s_an + ε`, with inner
    products s. An anchor without a positive keeps no negative, and the other way round.
    "Multi-Similarity Loss with General Pair Weighting" (CVPR 2019), eqs. 11 and 12.

    Args:
        epsilon: ε, a similarity.

    Call: `miner(pairs)`, gives the weights of the positive and of the negative pairs `(A, R)`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses.pairs import Pairs
        >>> x = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [-1.0, 0.0]])
        >>> pairs = Pairs(x, x, np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), exclude_self=True)
        >>> MultiSimilarityMiner()(pairs)[1].numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def __call__(self, pairs):
        similarities = pairs.similarities
        is_positive, is_negative = pairs.positives > 0, pairs.negatives > 0
        highest = ops.max(similarities, axis=1, keepdims=True)
        lowest = ops.min(similarities, axis=1, keepdims=True)
        least_positive = ops.min(ops.where(is_positive, similarities, highest), axis=1)[:, None]
        most_negative = ops.max(ops.where(is_negative, similarities, lowest), axis=1)[:, None]
        hard_negative = ops.logical_and(
            similarities > least_positive - self.epsilon, ops.any(is_positive, axis=1)[:, None]
        )
        hard_positive = ops.logical_and(
            similarities < most_negative + self.epsilon, ops.any(is_negative, axis=1)[:, None]
        )
        return (
            ops.where(hard_positive, pairs.positives, 0.0),
            ops.where(hard_negative, pairs.negatives, 0.0),
        )

    def get_config(self):
        return {"epsilon": self.epsilon}
