"""CroW pooling (Kalantidis, Mellina, Osindero, ECCV Workshops 2016)."""

from keras import ops

from gsp_tf._numerics import safe_sqrt
from gsp_tf._typing import Tensor
from gsp_tf.layers.pooling._base import WeightedPooling, as_distribution
from gsp_tf.ops import l2_normalize


class CrowPooling(WeightedPooling):
    """Average of local features, weighted by spatial strength and channel rarity.

    "Cross-dimensional Weighting for Aggregated Deep Convolutional Features" (2016), section 3, on
    the positive part f of the features. Position j has the weight `S_j = (s_j / ||s||)^(1/2)` with
    `s_j = Σ_c f_jc`. Channel c has the weight `I_c = log(Σ_d Q_d / Q_c)`. The pooled feature is
    `I_c (1/n) Σ_j S_j f_jc`. Two details follow the GSP authors' code: the occupancy Q_c of a
    channel is the mean of `sigmoid(f_jc)` over space, which has a gradient, while CroW counts the
    non-zero values; and the mean over space replaces the sum.

    Args:
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map or a set. Output: `(B, C)`.

    Example:
        >>> import numpy as np
        >>> features = np.array([[[0.0, 0.0], [3.0, 1.0]]], "float32")
        >>> CrowPooling()(features).numpy().round(3)
        array([[0.921, 0.39 ]], dtype=float32)
    """

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        features = ops.relu(features)
        occupancy = ops.einsum("bn,bnc->bc", average, ops.sigmoid(features))
        # Channels are unoccupied only in a set without features.
        occupancy = ops.where(occupancy > 0, occupancy, 1.0)
        rarity = ops.log(ops.sum(occupancy, axis=-1, keepdims=True) / occupancy)
        return rarity * ops.einsum("bn,bnc->bc", average * _strength(features), features)

    def weigh(self, features: Tensor, average: Tensor, positions: tuple) -> Tensor:
        return as_distribution(_strength(ops.relu(features)), average)


def _strength(features):
    """Weights S `(B, n)` of the positions of a non-negative set `(B, n, C)`."""
    # The root has no finite gradient at 0, but there it multiplies 0.
    return safe_sqrt(l2_normalize(ops.sum(features, axis=-1)))
