"""Generalized sum pooling with max pooling (Gürbüz, Şener, Alatan, ICCV 2023)."""

import keras

from gsp_tf._numerics import average_weights
from gsp_tf.layers.pooling.average_max import maximum
from gsp_tf.layers.pooling.gsp import GeneralizedSumPooling


@keras.saving.register_keras_serializable("gsp_tf")
class GeneralizedSumMaxPooling(GeneralizedSumPooling):
    """Sum of generalized sum pooling and global max pooling: `Σ_j w_j f_j + max_j f_j`.

    This is GMP+GSP of "Generalized Sum Pooling for Metric Learning", with the weights w of GSP.
    μ = 1 is `AverageMaxPooling`.

    Args: those of `GeneralizedSumPooling`. Input, output and methods are also the same.

    Raises:
        ValueError: if a parameter is out of range.

    Example:
        >>> import numpy as np
        >>> pooling = GeneralizedSumMaxPooling(num_prototypes=2, transport_ratio=1.0)
        >>> pooling(np.array([[[1.0, 0.0], [3.0, 4.0]]], "float32")).numpy().tolist()
        [[5.0, 6.0]]
    """

    def _pool(self, features, mask):
        pooled, *rest = super()._pool(features, mask)
        return pooled + maximum(features, average_weights(features, mask)), *rest
