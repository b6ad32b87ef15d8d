"""`.keras` files of embedders, which Keras loads where this library is installed."""

import keras
import numpy as np

from gsp_tf.training import first_output

_NAME = "embedder.keras"


def write_keras_file(served, recipe, folder):
    """Write `embedder.keras`.

    Args:
        served: `ServedEmbedder`.
        recipe: not used.
        folder: `pathlib.Path` of an empty folder.
    """
    served.embedder.save(folder / _NAME)


def read_keras_file(folder):
    """The embedder of an `embedder.keras`; Keras' safe mode runs no code from it.

    Args:
        folder: `pathlib.Path` that `write_keras_file` filled.

    Returns:
        function from images to a dict with the embedding.
    """
    embedder = keras.models.load_model(folder / _NAME, compile=False)
    return lambda images: {"embedding": first_output(embedder(np.asarray(images), training=False))}
