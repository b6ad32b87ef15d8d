"""Hard negatives (the GSP and CCP authors' code)."""

import keras
from keras import ops

from gsp_tf.losses.miners.miner import Miner
from gsp_tf.ops.ranks import weight_below


@keras.saving.register_keras_serializable("gsp_tf")
class HardNegativeMiner(Miner):
    """Keeps, for each anchor, as many of its nearest negatives as it has positives.

    At least one negative is kept; equally near ones are kept together. All positives stay.

    Call: `miner(pairs)`, gives the weights of the positive and of the negative pairs `(A, R)`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses.pairs import Pairs
        >>> x, labels = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = HardNegativeMiner()(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 1.0, 0.0]
    """

    def __call__(self, pairs):
        num_nearer = weight_below(pairs.distances, pairs.negatives, pairs.distances)
        num_kept = ops.maximum(ops.sum(pairs.positives, axis=1, keepdims=True), 1.0)
        return pairs.positives, ops.where(num_nearer < num_kept, pairs.negatives, 0.0)
