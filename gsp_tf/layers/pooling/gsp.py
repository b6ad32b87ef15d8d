"""Generalized sum pooling (Gürbüz, Şener, Alatan, ICCV 2023)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_positive, check_transport
from gsp_tf._numerics import at_least_float32, average_weights
from gsp_tf._typing import Solver, Tensor
from gsp_tf.layers._local_features import DataFormat, InitializerLike, at_positions
from gsp_tf.layers.pooling._base import PrototypePooling, WeightedPooling
from gsp_tf.layers.pooling.average_max import maximum
from gsp_tf.layers.pooling.generalized_mean import generalized_mean
from gsp_tf.ops import attribute_maps, generalized_sum_pooling, lipschitz_normalize


class GeneralizedSumPooling(PrototypePooling, WeightedPooling):
    """Weighted average of the local features that are worth transporting to learned prototypes.

    "Generalized Sum Pooling for Metric Learning", section 4. Moving local feature f_j to prototype
    ω_i costs `c_ij = ||ω̄_i - f̄_j||` with `ū = u / max(1, ||u||)`. The smoothed plan π of problem
    (P2) moves the fraction μ of the mass of the n features that is cheapest to move to the m
    prototypes. It leaves ρ_j of feature j. The pooled feature is `Σ_j p_j f_j` (eq. 4.1) with
    `p_j = (1/n - ρ_j) / μ`. The attributes are `z_i = Σ_j π_ij / μ` (eq. 4.3), the histogram of
    prototypes. μ = 1 is global average pooling (Theorem 4.1 and eq. 3.2; thesis, eq. 4.2.1).

    Args:
        num_prototypes: m, number of prototypes.
        transport_ratio: μ in (0, 1], fraction of the local features to keep.
        entropy_smoothing: ε > 0; small stays close to the average, large selects sharply.
        solver: "newton", or "fixed_point" for the 100 iterations of Prop. 4.2, which do not always
            converge (with ε 100 attributes sum to 0.97 to 1.03): `partial_transport` warns.
        return_attributes: also return the attributes, which `ZeroShotLoss` trains on.
        prototypes_initializer: initialiser of the prototypes; `adapt` takes them from data instead.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Input: a map or a set. Output: pooled `(B, C)`; with `return_attributes`, the pair of pooled
    `(B, C)` and attributes `(B, m)`. Each row of attributes sums to 1.

    Example:
        >>> import keras
        >>> images = keras.Input((32, 32, 3))
        >>> features = keras.layers.Conv2D(16, 3)(images)
        >>> embeddings = GeneralizedSumPooling(num_prototypes=8)(features)
        >>> embeddings.shape
        (None, 16)
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
        **kwargs: Any,
    ) -> None:
        super().__init__(num_prototypes, prototypes_initializer, data_format, **kwargs)
        check_transport(transport_ratio, entropy_smoothing, solver)
        self.transport_ratio = transport_ratio
        self.entropy_smoothing = entropy_smoothing
        self.solver = solver
        self.return_attributes = return_attributes

    def normalize(self, features: Tensor) -> Tensor:
        return lipschitz_normalize(features)

    def call(self, features, mask=None):
        features, mask, _ = self.as_set(features, mask)
        pooled, attributes, _ = self._pool(at_least_float32(features), mask)
        pooled = ops.cast(pooled, self.compute_dtype)
        if not self.return_attributes:
            return pooled
        return pooled, ops.cast(attributes, self.compute_dtype)

    def weigh(self, features: Tensor, average: Tensor, positions: tuple) -> Tensor:
        return self._pool(features, average > 0)[2]

    def attribute_maps(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Share of each position in each attribute, `π_ij / μ`; the sum over positions is eq. 4.3.

        Args:
            features: map or set, as for the layer.
            mask: optional boolean mask of a set, `(B, n)`.

        Returns:
            `(B, H, W, m)` for a map, `(B, n, m)` for a set; the shares of an image sum to 1.

        Example:
            >>> import numpy as np
            >>> gsp = GeneralizedSumPooling(num_prototypes=2)
            >>> maps = gsp.attribute_maps(np.ones((1, 2, 2, 3), "float32"))
            >>> maps.shape, round(float(maps.numpy().sum()), 3)
            (TensorShape([1, 2, 2, 2]), 1.0)
        """
        features, mask, positions = self.as_set(self._prepare(features), mask)
        return at_positions(attribute_maps(features, *self._transport(mask)), positions)

    def compute_output_shape(self, input_shape):
        pooled = super().compute_output_shape(input_shape)
        return (pooled, (input_shape[0], self.num_prototypes)) if self.return_attributes else pooled

    def compute_mask(self, inputs, mask=None):
        return (None, None) if self.return_attributes else None

    def _pool(self, features, mask):
        """Pooled `(B, C)`, attributes `(B, m)` and weights `(B, n)` of a set `(B, n, C)`."""
        return generalized_sum_pooling(features, *self._transport(mask))

    def _transport(self, mask):
        """Arguments of the operations after the features."""
        return self.prototypes, self.transport_ratio, self.entropy_smoothing, self.solver, mask


class GeneralizedSumMaxPooling(GeneralizedSumPooling):
    """Sum of generalized sum pooling and global max pooling: `Σ_j w_j f_j + max_j f_j`.

    This is GMP+GSP of "Generalized Sum Pooling for Metric Learning", with the weights w of GSP.
    μ = 1 is `AverageMaxPooling`.

    Args: those of `GeneralizedSumPooling`. Input, output and methods are also the same.

    Example:
        >>> import numpy as np
        >>> pooling = GeneralizedSumMaxPooling(num_prototypes=2, transport_ratio=1.0)
        >>> pooling(np.array([[[1.0, 0.0], [3.0, 4.0]]], "float32")).numpy().tolist()
        [[5.0, 6.0]]
    """

    def _pool(self, features, mask):
        pooled, *rest = super()._pool(features, mask)
        return pooled + maximum(features, average_weights(features, mask)), *rest


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
        check_positive(p=p)
        self.p = p

    def build(self, input_shape):
        super().build(input_shape)
        self.power = self.add_kernel("power", (), keras.initializers.Constant(self.p))

    def _pool(self, features, mask):
        _, attributes, weights = super()._pool(features, mask)
        average = average_weights(features, mask)
        relative = ops.expand_dims(ops.divide_no_nan(weights, average), -1)
        power = ops.cast(self.power, features.dtype)
        return generalized_mean(relative * features, power, average), attributes, weights
