"""Semi-hard negatives (Schroff et al., CVPR 2015)."""

import keras

from gsp_tf.losses.miners.miner import Miner
from gsp_tf.ops import smallest_above, weight_at


@keras.saving.register_keras_serializable("gsp_tf")
class SemiHardNegativeMiner(Miner):
    """Counts a negative once for each positive that it is the nearest negative beyond.

    For every positive pair the negative of smallest `d_an > d_ap` is taken, if there is one; a
    negative's weight is how often it was, and equally near ones share. All positives stay.
    "FaceNet" (CVPR 2015), section 3.2. A loss over triplets combines the positives and negatives of
    an anchor freely; for the triplets themselves take `TripletSemiHardLoss`.

    Call: `miner(pairs)`, gives the weights of the positive and of the negative pairs `(A, R)`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses.pairs import Pairs
        >>> x, labels = np.array([[0.0], [3.0], [2.0], [4.0]]), np.array([0, 0, 1, 2])
        >>> _, negatives = SemiHardNegativeMiner()(Pairs(x, x, labels, labels, exclude_self=True))
        >>> negatives.numpy()[0].tolist()
        [0.0, 0.0, 0.0, 1.0]
    """

    def __call__(self, pairs):
        is_negative = pairs.negatives > 0
        chosen = smallest_above(pairs.distances, is_negative, pairs.distances)
        return pairs.positives, weight_at(pairs.distances, is_negative, chosen, pairs.positives)
