"""What pooling layers share."""

from keras import ops

from gsp_tf._numerics import at_least_float32, average_weights
from gsp_tf._typing import Tensor
from gsp_tf.layers.local_features import LocalFeatureLayer, at_positions


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
    """Base of the poolings that report how much each position counts.

    Args:
        data_format: layout of feature maps, `None` for Keras' global setting.

    Example:
        >>> from gsp_tf.layers import CrowPooling, WeldonPooling
        >>> [isinstance(layer(), WeightedPooling) for layer in (CrowPooling, WeldonPooling)]
        [True, False]
    """

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
