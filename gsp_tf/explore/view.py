"""What the model of a run makes of an image."""

from typing import NamedTuple

import numpy as np

from gsp_tf.experiment import attributes_of_head, features_model, maps_of_head


class View(NamedTuple):
    """What a model makes of an image.

    Args:
        image: uint8 `(S, S, channels)`, the part of it that the model sees.
        embedding: float32 `(1, D)`.
        weights: floats `(H, W, maps)`, each map sums to 1; `None` if the pooling has none.
        attributes: floats `(H, W, m)`, share of the embedding that each place gives by way of each
            prototype; `None` if the pooling has none.
    """

    image: np.ndarray
    embedding: np.ndarray
    weights: np.ndarray | None
    attributes: np.ndarray | None


class ModelView:
    """A model, the images as it sees them, and what it makes of their places.

    Args:
        model: `RunModel`.

    Attributes:
        pooling_name: name of the class of the pooling, or of the layer in its place.
        num_prototypes: m, 0 if the pooling has no attributes.
    """

    def __init__(self, model):
        self.model = model
        self._features, self._head = features_model(model.embedder)
        self.pooling_name = type(self._head).__name__
        has_attributes = hasattr(self._head, "attribute_maps")
        self.num_prototypes = self._head.num_prototypes if has_attributes else 0

    def look(self, batches):
        """What the model makes of the one image of a batch, as a `View`."""
        ((images, labels),) = batches
        local = self._features(images, training=False)
        weights = maps_of_head(self._head, local).weights
        attributes = attributes_of_head(self._head, local)
        return View(
            as_pixels(images[0].numpy()),
            self.model.embed_batches([(images, labels)]),
            None if weights is None else weights[0],
            None if attributes is None else attributes[0],
        )

    def attributes(self, images):
        """Attributes of the places of a batch `(B, S, S, channels)`, floats `(B, H, W, m)`."""
        return attributes_of_head(self._head, self._features(images, training=False))


def as_pixels(image):
    """A prepared image as uint8.

    Args:
        image: floats.

    Returns:
        uint8 of the same shape.

    Example:
        >>> as_pixels(np.array([-0.2, 7.6, 255.3])).tolist()
        [0, 8, 255]
    """
    return np.clip(np.rint(image), 0, 255).astype("uint8")
