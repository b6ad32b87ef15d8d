"""Images as the model of a run sees them, with the weights and attributes of their places."""

from typing import Any, NamedTuple

import numpy as np

from gsp_tf._typing import Tensor
from gsp_tf.runs import TokenModel, attributes_of_head, features_model, maps_of_head
from gsp_tf.search import RunModel, pair_pictures

_TOKENS = 32  # matched of each image


class View(NamedTuple):
    """An image as a model sees it; weights and attributes are `None` if its pooling has none."""

    image: np.ndarray  # uint8 (S, S, channels), the part that the model sees
    embedding: np.ndarray  # float32 (1, D)
    weights: np.ndarray | None  # floats (H, W, maps), each map sums to 1
    attributes: np.ndarray | None  # floats (H, W, m), share of each place through each prototype


class ModelView:
    """A model with its pooling (or the layer that replaces it) and its number of prototypes."""

    def __init__(self, model: RunModel):
        self.model = model
        self._features, self._head = features_model(model.embedder)
        self.pooling_name = type(self._head).__name__
        has_attributes = hasattr(self._head, "attribute_maps")
        self.num_prototypes = self._head.num_prototypes if has_attributes else 0
        has_weights = hasattr(self._head, "pooling_weights")
        self._tokens = TokenModel(model.embedder, _TOKENS) if has_weights else None

    def look(self, batches: Any) -> View:
        """The view of the only image of a single batch."""
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

    def pairs(self, image: Any, others: Any) -> list[np.ndarray]:
        """Pictures of what an image, of a single batch, matches in the images of other batches."""
        if self._tokens is None:
            return []
        batches = [np.asarray(images) for part in (image, others) for images, _ in part]
        return pair_pictures(self._tokens, np.concatenate(batches))

    def attributes(self, images: Tensor) -> np.ndarray:
        """Attributes `(B, H, W, m)` of the places of images `(B, S, S, channels)`."""
        return attributes_of_head(self._head, self._features(images, training=False))


def as_pixels(image: np.ndarray) -> np.ndarray:
    """Converts a prepared float image to uint8."""
    return np.clip(np.rint(image), 0, 255).astype("uint8")
