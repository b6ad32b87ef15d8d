"""Images as a model sees them: the weights and attributes of places, and prototypes' strongest."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gsp_tf._typing import Tensor
from gsp_tf.runs import (
    TokenModel,
    attributes_of_head,
    evaluation_batches,
    features_model,
    has_local_features,
    maps_of_head,
)
from gsp_tf.search import RunModel
from gsp_tf.search.explore._searched import Searched
from gsp_tf.search.pages import TOKENS, as_pixels, pair_pictures

MAX_IMAGES = 1000
_PATCHES = 12
_CONTEXT = 4  # a patch is at least a quarter of the image wide
_CELLS = 3  # and at least this many places wide

Box = tuple[float, float, float, float]
"""Top, left, height and width as fractions of an image."""


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
        has_tokens = has_local_features(model.embedder)
        self._tokens = TokenModel(model.embedder, TOKENS) if has_tokens else None

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


class Patch(NamedTuple):
    """A place of an image, and the square that the page shows around it."""

    image: np.ndarray  # uint8 (S, S, channels), as the model sees it
    share: float  # of its embedding, through the place and the prototype
    cell: Box
    window: Box
    name: str
    label: str | None


class PrototypeBrowser:
    """The strongest patches of each prototype in at most 1,000 random images."""

    def __init__(
        self,
        view: ModelView,
        searched: Searched,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ):
        self._recipe = view.model.recipe
        self._sample = searched.sample(MAX_IMAGES)
        self.num_images = len(self._sample.indices)
        if not self.num_images:
            raise ValueError("None of the images can be read.")
        shares, places, sums, done = [], [], [], 0
        for images, _ in self._batches(self._sample.indices):
            progress(done, self.num_images)
            maps = np.asarray(view.attributes(images))
            self._grid = maps.shape[1:3]
            flat = maps.reshape(len(maps), -1, maps.shape[-1])
            shares.append(flat.max(axis=1))
            places.append(flat.argmax(axis=1))
            sums.append(flat.sum(axis=1))
            done += len(maps)
        # Of each image and prototype (N, m): the place with the largest share of the embedding by
        # way of it, the first of equal ones, and that share. The means (m,) are z of eq. 4.3.
        self._shares, self._places = np.concatenate(shares), np.concatenate(places)
        self.means = np.concatenate(sums).mean(axis=0)

    def _batches(self, indices):
        """Batches of images of the sample, prepared for the model."""
        return evaluation_batches(self._recipe, self._sample.images, indices)

    def patches(self, prototype: int, count: int = _PATCHES) -> list[Patch]:
        """The strongest patches of a prototype, at most one per image, strongest first."""
        rows = np.argsort(-self._shares[:, prototype], kind="stable")[:count]
        indices = self._sample.indices[rows]
        images = [image for batch, _ in self._batches(indices) for image in batch.numpy()]
        return [self._patch(row, prototype, image) for row, image in zip(rows, images, strict=True)]

    def _patch(self, row, prototype, image):
        height, width = self._grid
        down, right = divmod(int(self._places[row, prototype]), width)
        cell = (down / height, right / width, 1 / height, 1 / width)
        return Patch(
            as_pixels(image),
            float(self._shares[row, prototype]),
            cell,
            window_around(cell),
            self._sample.names[row],
            self._sample.labels[row],
        )


def window_around(cell: Box) -> Box:
    """A square around a place, at least 3 places and 1/4 image wide, shifted into the image."""
    side = min(1.0, max(1 / _CONTEXT, _CELLS * max(cell[2:])))
    top, left = (
        min(max(start + size / 2 - side / 2, 0.0), 1 - side)
        for start, size in zip(cell[:2], cell[2:], strict=True)
    )
    return top, left, side, side
