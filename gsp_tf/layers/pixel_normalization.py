"""From pixels in [0, 255] to what a pretrained network was trained on."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("gsp_tf")
class PixelNormalization(keras.layers.Layer):
    """Centres and scales pixels by channel: `(pixel - mean) / std`, in float32.

    Args:
        mean: mean of each of the three channels, or of all, in pixels of [0, 255]; in the order of
            the output.
        std: what to divide each channel by, or all.
        bgr: turn RGB into BGR, the order of Caffe's networks, first.

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
        self.mean = mean
        self.std = std
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
        return {**super().get_config(), "mean": self.mean, "std": self.std, "bgr": self.bgr}
