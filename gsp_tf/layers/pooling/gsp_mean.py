"""Generalized sum pooling within a generalised mean (Gürbüz, Şener, Alatan, ICCV 2023)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_positive_and_finite
from gsp_tf._numerics import average_weights
from gsp_tf._typing import Solver
from gsp_tf.layers.local_features import DataFormat, InitializerLike
from gsp_tf.layers.pooling.generalized_mean import add_power, generalized_mean
from gsp_tf.layers.pooling.gsp import GeneralizedSumPooling


@keras.saving.register_keras_serializable("gsp_tf")
class GeneralizedSumMeanPooling(GeneralizedSumPooling):
    """Power mean of the local features with the weights of generalized sum pooling.

    This is GeMean+GSP of "Generalized Sum Pooling for Metric Learning":
    `((1/n) Σ_j (n w_j f_j)^p)^(1/p)` with the weights w of GSP, as the authors' code computes it.
    Values of `n w_j f_j` below 1e-6 count as 1e-6. For non-negative features, p = 1 is
    `GeneralizedSumPooling`. μ = 1 is `GeneralizedMeanPooling`.

    The other arguments, input, output, methods, weights and maps are those of
    `GeneralizedSumPooling`.

    Args:
        p: initial power, > 0. It is learned with the prototypes.

    Weights: `prototypes (m, C)` and `power`, the scalar p.

    Raises:
        ValueError: if a parameter is out of range.

    Example:
        >>> import numpy as np
        >>> pooling = GeneralizedSumMeanPooling(2, transport_ratio=1.0, p=2.0)
        >>> pooling(np.array([[[3.0], [5.0]]], "float32")).numpy().round(3).tolist()
        [[4.123]]
    """

    def __init__(
        self,
        num_prototypes: int = 64,
        transport_ratio: float = 0.3,
        entropy_smoothing: float = 5.0,
        solver: Solver = "newton",
        return_attributes: bool = False,
        prototypes_initializer: InitializerLike = "glorot_uniform",
        data_format: DataFormat | None = None,
        p: float = 3.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_prototypes,
            transport_ratio,
            entropy_smoothing,
            solver,
            return_attributes,
            prototypes_initializer,
            data_format,
            **kwargs,
        )
        check_positive_and_finite(p=p)
        self.p = p

    def build(self, input_shape):
        super().build(input_shape)
        self.power = add_power(self, self.p)

    def _pool(self, features, mask):
        _, attributes, weights = super()._pool(features, mask)
        average = average_weights(features, mask)
        relative = ops.expand_dims(ops.divide_no_nan(weights, average), -1)
        power = ops.cast(self.power, features.dtype)
        return generalized_mean(relative * features, power, average), attributes, weights
