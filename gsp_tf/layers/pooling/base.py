"""What every pooling layer shares."""

from keras import ops

from gsp_tf.layers._local_features import LocalFeatureLayer
from gsp_tf.ops import at_least_float32, average_weights


class LocalFeaturePooling(LocalFeatureLayer):
    """Base of the layers that pool local features to one vector `(B, C)`."""

    def as_weighted_set(self, features, mask=None):
        """As `as_set` in at least float32, with the weights of average pooling for a mask."""
        features, mask, places = self.as_set(features, mask)
        features = at_least_float32(features)
        return features, average_weights(features, mask), places

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_channels(input_shape))

    def compute_mask(self, inputs, mask=None):
        return None


def as_distribution(weights, average):
    """Scale non-negative weights to sum 1; where all are 0, the weights of average pooling.

    Args:
        weights: float tensor `(B, n)`, 0 for the features that are not there.
        average: `average_weights` of the features.

    Example:
        >>> as_distribution([[1.0, 3.0], [0.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]).numpy().tolist()
        [[0.25, 0.75], [0.5, 0.5]]
    """
    total = ops.sum(weights, axis=-1, keepdims=True)
    return ops.where(total > 0, ops.divide_no_nan(weights, total), average)
