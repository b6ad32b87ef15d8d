"""Normalisation of vectors, pixels and batches as layers."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._config import constructor_config
from gsp_tf.ops import l2_normalize, lipschitz_normalize


class _VectorNormalization(keras.layers.Layer):
    """Base of the layers that normalise vectors by a function, `normalize`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs):
        return ops.cast(self.normalize(inputs), self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


class LipschitzNormalization(_VectorNormalization):
    """Pulls vectors into the unit ball: `u / max(1, ||u||)`.

    GSP paper (Gürbüz et al., ICCV 2023), section 4.1: vectors inside the ball stay as they are, so
    that the norm of a weak feature still counts and the map is 1-Lipschitz.

    Input: `(..., D)`. Output: `(..., D)`.

    Example:
        >>> import numpy as np
        >>> LipschitzNormalization()(np.array([[3.0, 4.0], [0.3, 0.4]])).numpy().tolist()
        [[0.6, 0.8], [0.3, 0.4]]
    """

    normalize = staticmethod(lipschitz_normalize)


class L2Normalization(_VectorNormalization):
    """Scales vectors to unit length: `u / ||u||`, zero for a zero vector.

    It is the last layer of an embedder for comparison by cosine similarity. Its gradient is finite
    everywhere and zero at zero.

    Input: `(..., D)`. Output: `(..., D)`.

    Example:
        >>> import numpy as np
        >>> L2Normalization()(np.array([[3.0, 4.0], [0.0, 0.0]])).numpy().tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """

    normalize = staticmethod(l2_normalize)


class PixelNormalization(keras.layers.Layer):
    """Centres and scales pixels by channel: `(pixel - mean) / std`, in float32.

    Args:
        mean: mean of each of the three channels, or of all, for pixels in [0, 255]; in the order of
            the output.
        std: divisor of each channel, or of all, above 0.
        bgr: first turn RGB into BGR, the order of Caffe's networks.

    Input: RGB images `(B, H, W, 3)`, pixels in [0, 255]. Output: `(B, H, W, 3)`.

    Example:
        >>> import numpy as np
        >>> layer = PixelNormalization(mean=(104.0, 117.0, 128.0), bgr=True)
        >>> layer(np.array([[[[255.0, 117.0, 0.0]]]])).numpy().ravel().tolist()
        [-104.0, 0.0, 127.0]
    """

    def __init__(
        self,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        bgr: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.mean, self.std = np.asarray(mean).tolist(), np.asarray(std).tolist()
        if not np.all(np.isfinite(self.mean)) or not np.all(np.asarray(self.std) > 0):
            raise ValueError(
                f"mean must be finite and std positive; received mean={mean} and std={std}."
            )
        self.bgr = bgr

    def call(self, images):
        images = ops.cast(images, "float32")
        if self.bgr:
            images = ops.flip(images, axis=-1)
        mean = ops.convert_to_tensor(self.mean, "float32")
        std = ops.convert_to_tensor(self.std, "float32")
        return ops.cast((images - mean) / std, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), **constructor_config(self)}


class FrozenBatchNormalization(keras.layers.BatchNormalization):
    """Batch normalisation by its moving statistics, even in training, with nothing to train.

    Keras' own layer with `trainable = False` does the same until `trainable` is set on an enclosing
    model, which loading the model does. This layer stays `False`.

    Args: those of `keras.layers.BatchNormalization`.

    Example:
        >>> import numpy as np
        >>> layer = FrozenBatchNormalization(epsilon=0.0)
        >>> layer(np.array([[1.0], [3.0]]), training=True).numpy().ravel().tolist()
        [1.0, 3.0]
        >>> layer.trainable = True
        >>> layer.trainable, len(layer.trainable_weights)
        (False, 0)
    """

    @property
    def trainable(self):
        return False

    @trainable.setter
    def trainable(self, value):
        self._trainable = False

    def build(self, input_shape):
        super().build(input_shape)
        for variable in self.variables:
            variable.trainable = False
