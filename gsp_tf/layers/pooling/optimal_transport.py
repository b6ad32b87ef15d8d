"""Optimal transport pooling (Mialon, Chen, d'Aspremont, Mairal, ICLR 2021)."""

from typing import Any

import keras
from keras import ops

from gsp_tf.layers._local_features import DataFormat, InitializerLike
from gsp_tf.layers.pooling.adapt import cover, sample_local_features
from gsp_tf.layers.pooling.base import LocalFeaturePooling
from gsp_tf.layers.sizes import check_sizes
from gsp_tf.ops import balanced_transport, l2_normalize, pairwise_distances


@keras.saving.register_keras_serializable("gsp_tf")
class OptimalTransportPooling(LocalFeaturePooling):
    """Averages of the local features that an optimal transport plan moves to each prototype.

    "A Trainable Optimal Transport Embedding for Feature Aggregation and its Relationship to
    Attention" (ICLR 2021), definition 3.2: all the mass of n local features f_j, 1/n each, is
    moved in equal parts, 1/m, to m prototypes ω_i, by the smoothed plan π of the costs
    `c_ij = ||ω̂_i - f̂_j||` between L2-normalised vectors. The pooled feature is the concatenation
    of `√m Σ_j π_ij f_j`. Cost, smoothing and number of iterations are those of the GSP authors'
    code; unlike GSP, every feature must go somewhere and every prototype gets its part.

    Args:
        num_prototypes: m, number of prototypes (the paper's reference).
        entropy_smoothing: ε > 0; small keeps close to the average in each part, large is close to
            an assignment.
        num_iterations: Sinkhorn iterations, at least 1; large ε needs more to fill equal parts.
        prototypes_initializer: initialiser of the prototypes; `adapt` takes them from data instead.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weight: `prototypes (m, C)`.

    Input: a map `(B, H, W, C)` (or `(B, C, H, W)` with "channels_first"), or a set `(B, n, C)`,
    whose Keras mask `(B, n)` leaves features out.

    Output: `(B, m * C)`, prototype by prototype. With a linear map to D / m channels before it, the
    embedding has D dimensions, as in the thesis, section 5.3.5 (m = 8, D = 128).

    Raises:
        ValueError: if a parameter is out of range or the input is neither a map nor a set.

    Example:
        >>> import keras
        >>> features = keras.Input((7, 7, 16))
        >>> OptimalTransportPooling(num_prototypes=4)(features).shape
        (None, 64)
    """

    def __init__(
        self,
        num_prototypes: int = 64,
        entropy_smoothing: float = 2.0,
        num_iterations: int = 10,
        prototypes_initializer: InitializerLike = "glorot_uniform",
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(num_prototypes=num_prototypes, num_iterations=num_iterations)
        if not 0.0 < entropy_smoothing < float("inf"):
            raise ValueError(
                f"entropy_smoothing must be positive and finite, received {entropy_smoothing}."
            )
        self.num_prototypes = num_prototypes
        self.entropy_smoothing = entropy_smoothing
        self.num_iterations = num_iterations
        self.prototypes_initializer = keras.initializers.get(prototypes_initializer)
        self.supports_masking = True

    def build(self, input_shape):
        self.prototypes = self.add_weight(
            name="prototypes",
            shape=(self.num_prototypes, self.num_channels(input_shape)),
            initializer=self.prototypes_initializer,
            autocast=False,
        )

    def call(self, features, mask=None):
        features, average, _ = self.as_weighted_set(features, mask)
        cost = pairwise_distances(l2_normalize(self.prototypes), l2_normalize(features))
        plan = balanced_transport(cost, average, self.entropy_smoothing, self.num_iterations)
        pooled = self.num_prototypes**0.5 * ops.matmul(plan, features)
        pooled = ops.reshape(pooled, (ops.shape(features)[0], -1))
        return ops.cast(pooled, self.compute_dtype)

    def adapt(self, features, seed=0):
        """Take the prototypes from data: greedy k-center over L2-normalised local features.

        The first prototype is the local feature farthest from their mean, each further one the
        farthest from those chosen. Of more than 65,536 local features a random sample of that many
        is used.

        Args:
            features: array of maps or sets as for the layer, or an iterable of them such as a
                `tf.data.Dataset`; of tuples the first entry counts. What a Keras mask leaves out
                is no candidate.
            seed: seed of the random sample.

        Raises:
            ValueError: if there are fewer local features than prototypes, or one is not finite.

        Example:
            >>> import numpy as np
            >>> pooling = OptimalTransportPooling(num_prototypes=2)
            >>> pooling.adapt(np.array([[[0.0, 2.0], [0.1, 0.8], [0.7, 0.0]]], "float32"))
            >>> pooling.prototypes.numpy().tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        pool = sample_local_features(self, features, "num_prototypes", seed)
        pool = ops.convert_to_numpy(l2_normalize(pool))
        self.prototypes.assign(cover(pool, self.num_prototypes))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_prototypes * self.num_channels(input_shape))

    def get_config(self):
        return {
            **super().get_config(),
            "num_prototypes": self.num_prototypes,
            "entropy_smoothing": self.entropy_smoothing,
            "num_iterations": self.num_iterations,
            "prototypes_initializer": keras.initializers.serialize(self.prototypes_initializer),
        }
