"""Generalized max pooling (Murray and Perronnin, CVPR 2014)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._backend import available
from gsp_tf._typing import Tensor
from gsp_tf.layers.local_features import DataFormat, check_positive
from gsp_tf.layers.pooling.base import LocalFeaturePooling
from gsp_tf.ops import solve_positive_definite


@keras.saving.register_keras_serializable("gsp_tf")
class GeneralizedMaxPooling(LocalFeaturePooling):
    """Weighted sum of local features that is equally similar to rare and frequent ones.

    The pooled ξ minimises `Σ_j (f_jᵀ ξ - 1)² + λ ||ξ||²`. In dual form it is `ξ = Σ_j α_j f_j` with
    `(K + λ I) α = 1` and `K_ij = f_iᵀ f_j`; the weights α may be negative. λ to infinity is sum
    pooling, up to scale. "Generalized Max Pooling" (CVPR 2014) and "Interferences in Match Kernels"
    (Murray, Jégou, Perronnin, Zisserman, TPAMI 2017).

    The system is solved in float64. Its rounding error is about `ε (n + C) Σ_j ||f_j||²` with the
    machine epsilon ε. An error above λ replaces λ: with a hundred features of 512 channels and
    `λ = 1`, this happens from values of about 10,000 on.

    Args:
        regularization: λ > 0.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map or a set. Output: `(B, C)`.

    Raises:
        ValueError: if λ is not positive.

    Example:
        >>> import numpy as np
        >>> features = np.array([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
        >>> GeneralizedMaxPooling(regularization=0.01)(features).numpy().round(2).tolist()
        [[1.0, 0.99]]
    """

    def __init__(
        self, regularization: float = 1.0, data_format: DataFormat | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_positive(regularization=regularization)
        self.regularization = regularization

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        wide = available("float64")
        features = ops.cast(features, wide)
        gram = ops.matmul(features, ops.swapaxes(features, 1, 2))
        n, channels = ops.shape(features)[1:]
        trace = ops.sum(ops.square(features), axis=(1, 2), keepdims=True)
        epsilon = float(np.finfo(wide).eps)
        rounding = epsilon * ops.cast(n + channels, wide) * ops.stop_gradient(trace)
        ridge = ops.maximum(rounding, self.regularization)
        # Masked features are 0: their weights multiply 0 and do not affect the others.
        weights = solve_positive_definite(
            gram + ridge * ops.eye(n, dtype=wide), ops.ones_like(features[..., :1])
        )
        return ops.sum(weights * features, axis=1)
