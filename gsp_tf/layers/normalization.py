"""Normalisation of vectors as layers."""

from typing import Any

import keras
from keras import ops

from gsp_tf.ops import l2_normalize, lipschitz_normalize


@keras.saving.register_keras_serializable("gsp_tf")
class LipschitzNormalization(keras.layers.Layer):
    """Pulls vectors into the unit ball: `u / max(1, ||u||)`.

    GSP paper (Gürbüz et al., ICCV 2023), section 4.1: vectors inside the ball are left as they are,
    so that the norm of a weak feature still counts and the map is 1-Lipschitz.

    Input: `(..., D)`. Output: `(..., D)`.

    Example:
        >>> import numpy as np
        >>> LipschitzNormalization()(np.array([[3.0, 4.0], [0.3, 0.4]])).numpy().tolist()
        [[0.6, 0.8], [0.3, 0.4]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs):
        return ops.cast(lipschitz_normalize(inputs), self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable("gsp_tf")
class L2Normalization(keras.layers.Layer):
    """Scales vectors to unit length: `u / ||u||`, zero for a zero vector.

    The last layer of an embedder whose embeddings are compared by cosine similarity. Its gradient
    is finite everywhere and zero at zero.

    Input: `(..., D)`. Output: `(..., D)`.

    Example:
        >>> import numpy as np
        >>> L2Normalization()(np.array([[3.0, 4.0], [0.0, 0.0]])).numpy().tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs):
        return ops.cast(l2_normalize(inputs), self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape
