"""What pooling layers share."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_sizes, checked_seed
from gsp_tf._endless import refuse_endless
from gsp_tf._numerics import at_least_float32, average_weights
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import (
    DataFormat,
    InitializerLike,
    LocalFeatureLayer,
    at_positions,
)
from gsp_tf.ops import greedy_k_center


class LocalFeaturePooling(LocalFeatureLayer):
    """Base of the layers that pool local features to one vector `(B, C)`.

    A subclass implements `pool` for sets. The base class handles masks, layouts and types.

    Args:
        data_format: layout of feature maps, `None` for Keras' global setting.

    Example:
        >>> class SquarePooling(LocalFeaturePooling):
        ...     def pool(self, features, average):
        ...         return ops.einsum("bn,bnc->bc", average, features**2)
        >>> SquarePooling()(ops.convert_to_tensor([[[1.0], [3.0]]])).numpy().tolist()
        [[5.0]]
    """

    def call(self, features, mask=None):
        features, average, _ = self.as_weighted_set(features, mask)
        return ops.cast(self.pool(features, average), self.compute_dtype)

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        """Pooled vector of a set `(B, n, C)`, given the weights `(B, n)` of average pooling."""
        raise NotImplementedError

    def as_weighted_set(
        self, features: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, tuple]:
        """Like `as_set`, in at least float32 and with the weights of average pooling."""
        features, mask, positions = self.as_set(features, mask)
        features = at_least_float32(features)
        return features, average_weights(features, mask), positions

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_channels(input_shape))

    def compute_mask(self, inputs, mask=None):
        return None


class WeightedPooling(LocalFeaturePooling):
    """Base of the poolings that report how much each position counts."""

    def pooling_weights(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Weight of every local feature in the pooled feature.

        Args:
            features: map or set, as for the layer.
            mask: optional boolean mask of a set, `(B, n)`.

        Returns:
            `(B, H, W)` for a map, `(B, n)` for a set; each sums to 1.

        Example:
            >>> import numpy as np
            >>> from gsp_tf.layers import CrowPooling
            >>> weights = CrowPooling().pooling_weights(np.array([[[4.0], [0.0], [1.0]]]))
            >>> weights.numpy().round(3).tolist()
            [[0.667, 0.0, 0.333]]
        """
        features, average, positions = self.as_weighted_set(self._prepare(features), mask)
        return at_positions(self.weigh(features, average, positions), positions)

    def weigh(self, features: Tensor, average: Tensor, positions: tuple) -> Tensor:
        """Weights `(B, n)` of a set `(B, n, C)`, given average-pooling weights and positions."""
        raise NotImplementedError


def as_distribution(weights, average):
    """Weights `(B, n)` scaled to sum to 1, or those of average pooling if all are 0."""
    total = ops.sum(weights, axis=-1, keepdims=True)
    return ops.where(total > 0, ops.divide_no_nan(weights, total), average)


_POOL_SIZE = 2**16


class PrototypePooling(LocalFeaturePooling):
    """Base of the poolings with a weight `prototypes (m, C)` that can be taken from data."""

    def __init__(
        self,
        num_prototypes: int,
        prototypes_initializer: InitializerLike,
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(num_prototypes=num_prototypes)
        self.num_prototypes = num_prototypes
        self.prototypes_initializer = keras.initializers.get(prototypes_initializer)

    def build(self, input_shape):
        shape = (self.num_prototypes, self.num_channels(input_shape))
        self.prototypes = self.add_kernel("prototypes", shape, self.prototypes_initializer)

    def normalize(self, features: Tensor) -> Tensor:
        """Normalise vectors for comparison with the prototypes."""
        raise NotImplementedError

    def adapt(self, features: Tensor | Iterable, seed: int = 0) -> None:
        """Take the prototypes from data by greedy k-center over normalised local features.

        The first prototype is the local feature farthest from the mean. Each further one is the
        farthest from the mean and from those chosen (thesis, Algorithm 2), so that they cover the
        features. If there are more than 65,536 local features, a random sample of that many is
        used.

        Args:
            features: array of maps or sets as for the layer, or a finite iterable of them such as a
                `tf.data.Dataset`; only the first entry of a tuple is used. Features that a Keras
                mask leaves out are not candidates.
            seed: seed of the random sample.

        Raises:
            ValueError: if there are fewer local features than prototypes, one is not finite, or the
                iterable is endless.

        Example:
            >>> from gsp_tf.layers import GeneralizedSumPooling
            >>> gsp = GeneralizedSumPooling(num_prototypes=2)
            >>> gsp.adapt(np.array([[[0.0, 0.9], [0.1, 0.8], [0.7, 0.0]]], "float32"))
            >>> gsp.prototypes.numpy().round(1).tolist()
            [[0.7, 0.0], [0.0, 0.9]]
        """
        pool = sample_local_features(self, features, seed, num_prototypes=self.num_prototypes)
        pool = ops.convert_to_numpy(self.normalize(pool))
        mean = pool.mean(axis=0, keepdims=True)
        chosen = greedy_k_center(pool, mean, self.num_prototypes)
        self.prototypes.assign(pool[ops.convert_to_numpy(chosen)])


def sample_local_features(pooling, features, seed, **needed):
    """Local features of data, `(at most 65536, C)`; refuses fewer than a size the layer needs."""
    if hasattr(features, "shape"):
        features = [features]
    refuse_endless(features, "features")
    rng = np.random.default_rng(checked_seed(seed))
    pool, keys = [], []
    for batch in features:
        batch = batch[0] if isinstance(batch, (tuple, list)) else batch
        if isinstance(batch, (tuple, list, dict)):
            raise ValueError(
                "adapt takes maps (B, H, W, C) or sets (B, n, C) of local features, received "
                f"{len(batch)} inputs of an embedder. Give the outputs of "
                "keras.Model(embedder.input, pooling.input) for them."
            )
        local, mask, _ = pooling.as_set(batch, getattr(batch, "_keras_mask", None))
        local = ops.convert_to_numpy(at_least_float32(local))
        kept = slice(None) if mask is None else ops.convert_to_numpy(mask).astype(bool)
        local = local[kept].reshape(-1, local.shape[-1])
        pool = np.concatenate([pool, local]) if len(pool) else local
        keys = np.concatenate([keys, rng.random(len(local))])
        if len(pool) > _POOL_SIZE:
            kept = np.sort(np.argpartition(keys, _POOL_SIZE)[:_POOL_SIZE])
            pool, keys = pool[kept], keys[kept]
    for name, size in needed.items():
        if len(pool) < size:
            raise ValueError(
                f"adapt needs at least {name}={size} local features, received {len(pool)}."
            )
    if not np.isfinite(pool).all():
        raise ValueError("adapt needs finite features, received NaN or infinity.")
    if not pooling.built:
        pooling.build((None, None, pool.shape[-1]))
    return pool
