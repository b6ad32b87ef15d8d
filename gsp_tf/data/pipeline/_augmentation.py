"""Random changes of training images, by the image layers of Keras."""

import contextlib
import threading
from collections.abc import Sequence

import keras

from gsp_tf._console import counted
from gsp_tf._keras import check_image_layer, draw_seeds_from
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._names import NOT_AUGMENTATIONS
from gsp_tf._typing import Tensor

_FIRST = 2  # the window and the flip of an image take 1


class Augmentation:
    """Image layers of Keras that change images, each by a seed of its own, within [0, 255]."""

    # In a graph of TensorFlow, the layers draw the same numbers on every backend of Keras.

    def __init__(self, layers: Sequence[keras.layers.Layer]):
        for layer in layers:
            name = type(layer).__name__
            reason = NOT_AUGMENTATIONS.get(name.removeprefix("Random").lower())
            if reason is not None:
                raise ValueError(f"keras.layers.{name}: {reason}.")
            check_image_layer(layer)
            draw_seeds_from(_SEEDS, layer)
        self._layers = tuple(layers)

    def __call__(self, image: Tensor, seed: Tensor) -> Tensor:
        """A changed image `(S, S, channels)`; the seed is an int32."""
        if tf.executing_eagerly():
            return tf.function(self._changed, autograph=False)(image, seed)
        return self._changed(image, seed)

    def _changed(self, image, seed):
        with _SEEDS.of_image(seed):
            for layer in self._layers:
                try:
                    changed = tf.cast(layer(image, training=True), tf.float32)
                    image = tf.clip_by_value(changed, 0.0, 255.0)
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
        return tf.stack([seed, count])


_SEEDS = _Seeds()
