"""Random changes of training images, by the image layers of Keras."""

import contextlib
import threading
from collections.abc import Sequence

import keras
import numpy as np

from gsp_tf._console import counted
from gsp_tf._keras import check_image_layer, draw_seeds_from
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._names import NOT_AUGMENTATIONS
from gsp_tf._typing import Tensor

_FIRST = 2  # the window and the flip of an image take 1


class Augmentation:
    """Image layers of Keras that change images, each by a seed of its own, within [0, 255]."""

    # TensorFlow draws the same numbers on every backend of Keras; without it, the backend draws.

    def __init__(self, layers: Sequence[keras.layers.Layer]):
        for layer in layers:
            name = type(layer).__name__
            reason = NOT_AUGMENTATIONS.get(name.removeprefix("Random").lower())
            if reason is not None:
                raise ValueError(f"keras.layers.{name}: {reason}.")
            check_image_layer(layer)
            draw_seeds_from(_SEEDS, layer)
        self._layers = tuple(layers)

    def in_graph(self, image: Tensor, seed: Tensor) -> Tensor:
        """A changed image `(S, S, channels)` in a graph of TensorFlow; the seed is an int32."""

        def clipped(changed):
            return tf.clip_by_value(tf.cast(changed, tf.float32), 0.0, 255.0)

        return self._changed(image, seed, clipped)

    def of_array(self, image: np.ndarray, seed: int) -> np.ndarray:
        """A changed image `(S, S, channels)`, by the backend of Keras; the seed is an int32."""

        def clipped(changed):
            return np.clip(keras.ops.convert_to_numpy(changed).astype(np.float32), 0, 255)

        with keras.device("cpu"):
            return self._changed(np.ascontiguousarray(image), seed, clipped)

    def _changed(self, image, seed, clipped):
        with _SEEDS.of_image(seed):
            for layer in self._layers:
                try:
                    image = clipped(layer(image, training=True))
                except Exception as error:
                    if image.shape[-1] == 3:
                        raise
                    channels = counted(image.shape[-1], "channel")
                    raise ValueError(
                        f"keras.layers.{type(layer).__name__} cannot change images of {channels}, "
                        "because it needs red, green and blue. Leave it out, or load 3 channels."
                    ) from error
        return image


class _Seeds(keras.random.SeedGenerator):
    """The seeds that layers draw with for one image: pairs of its own seed and a count."""

    def __init__(self):  # not of the base, whose state is a variable
        self._of_thread = threading.local()

    @contextlib.contextmanager
    def of_image(self, seed):
        """Give the seeds of one image in this thread."""
        self._of_thread.seed, self._of_thread.count = seed, _FIRST
        try:
            yield
        finally:
            self._of_thread.seed = None

    def are_set(self):
        """Whether this thread changes an image."""
        return getattr(self._of_thread, "seed", None) is not None

    def next(self, ordered=True):
        seed, count = self._of_thread.seed, self._of_thread.count
        self._of_thread.count += 1
        if isinstance(seed, int):
            # JAX takes uint32. TensorFlow and PyTorch have int32 seeds of the same bits.
            bits = np.array([seed, count], np.int32)
            is_jax = keras.backend.backend() == "jax"
            return keras.ops.convert_to_tensor(bits.view(np.uint32) if is_jax else bits)
        return tf.stack([seed, count])


_SEEDS = _Seeds()
