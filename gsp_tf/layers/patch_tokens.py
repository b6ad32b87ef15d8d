"""The tokens of the patches among those of a vision transformer."""

from typing import Any

import keras

from gsp_tf._config import constructor_config


@keras.saving.register_keras_serializable("gsp_tf")
class PatchTokens(keras.layers.Layer):
    """The last tokens of each image: those of its patches, after class and register tokens.

    The number of tokens of the output is known, whatever the layer before it says about its own.

    Args:
        num_patches: n, number of patches of an image.

    Input: tokens `(B, n + others, C)`. Output: `(B, n, C)`, in their order.

    Example:
        >>> import keras
        >>> PatchTokens(4)(keras.ops.ones((2, 5, 8))).shape
        TensorShape([2, 4, 8])
    """

    def __init__(self, num_patches: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_patches = num_patches

    def call(self, tokens):
        return tokens[:, -self.num_patches :]

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_patches, input_shape[-1])

    def get_config(self):
        return {**super().get_config(), **constructor_config(self)}
