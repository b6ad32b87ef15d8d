"""Hard negatives (the GSP and CCP authors' code)."""

import keras
from keras import ops

from gsp_tf.losses.miners.miner import Miner
from gsp_tf.ops import weight_below


@keras.saving.register_keras_serializable("gsp_tf")
class HardNegativeMiner(Miner):
    """Keeps, for each anchor, as many of its nearest negatives as it has positives.

    At least one negative is kept; equally near ones are kept together. All positives stay. The
    authors' program takes for every anchor as many as the anchor with most positives has: the same
    in batches of equally many images of each class, and another loss otherwise.

    Args:
        common_count: keep as many negatives of every anchor as the anchor with most positives has,
            as the authors' program does.

    Call: `miner(pairs)`, gives the weights of the positive and of the negative pairs `(A, R)`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses.pairs import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = HardNegativeMiner()(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, common_count: bool = False) -> None:
        self.common_count = common_count

    def __call__(self, pairs):
        num_nearer = weight_below(pairs.distances, pairs.negatives, pairs.distances)
        num_kept = ops.maximum(ops.sum(pairs.positives, axis=1, keepdims=True), 1.0)
        if self.common_count:
            num_kept = ops.max(num_kept)
        return pairs.positives, ops.where(num_nearer < num_kept, pairs.negatives, 0.0)

    def get_config(self):
        return {"common_count": self.common_count}
