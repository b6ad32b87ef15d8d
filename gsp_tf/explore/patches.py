"""The places of images that are closest to a prototype."""

from typing import NamedTuple

import numpy as np

from gsp_tf.experiment import evaluation_batches
from gsp_tf.explore.view import as_pixels

MAX_IMAGES = 1000
PATCHES = 12
_CONTEXT = 4  # a patch is at least a quarter of the image wide
_CELLS = 3  # and at least as many places


class StrongestPlaces(NamedTuple):
    """In each of some images the place with the largest share in each prototype.

    Args:
        shares: floats `(N, m)`, share of the embedding of the image that this place gives by way of
            the prototype.
        places: integers `(N, m)`, which place, counted row by row.
        grid: H and W, places of an image from top to bottom and from left to right.
        means: floats `(m,)`, mean over the images of the share that all places give: z of eq. 4.3
            of "Generalized Sum Pooling for Metric Learning".
    """

    shares: np.ndarray
    places: np.ndarray
    grid: tuple[int, int]
    means: np.ndarray

    def strongest(self, prototype, count):
        """The images whose place has the largest share in a prototype, integers, largest first."""
        return np.argsort(-self.shares[:, prototype], kind="stable")[:count]


def strongest_places(maps):
    """The place of each image with the largest share in each prototype.

    Args:
        maps: iterable of batches of `GeneralizedSumPooling.attribute_maps`, floats `(B, H, W, m)`.

    Returns:
        `StrongestPlaces`; of equal places the first.

    Example:
        >>> found = strongest_places([np.array([[[[0.1, 0.2], [0.5, 0.2]]]])])
        >>> found.places.tolist(), found.shares.tolist(), found.grid
        ([[1, 0]], [[0.5, 0.2]], (1, 2))
        >>> found.means.round(1).tolist()
        [0.6, 0.4]
    """
    shares, places, sums = [], [], []
    for batch in maps:
        grid = batch.shape[1:3]
        flat = np.asarray(batch).reshape(len(batch), -1, batch.shape[-1])
        shares.append(flat.max(axis=1))
        places.append(flat.argmax(axis=1))
        sums.append(flat.sum(axis=1))
    means = np.concatenate(sums).mean(axis=0)
    return StrongestPlaces(np.concatenate(shares), np.concatenate(places), grid, means)


class Patch(NamedTuple):
    """A place of an image.

    Args:
        image: uint8 `(S, S, channels)`, the image as the model sees it.
        share: share of its embedding that the place gives by way of the prototype.
        cell: top, left, height and width of the place as shares of the image.
        window: the same of a square around it, which is within the image.
        name: name of the file.
        label: its class, `None` if it is not known.
    """

    image: np.ndarray
    share: float
    cell: tuple
    window: tuple
    name: str
    label: str | None


class PrototypeBrowser:
    """The patches of images that are strongest for each prototype.

    Args:
        view: `ModelView` of a model with prototypes.
        collection: what `open_collection` gives; of more than 1,000 images a random sample of that
            many is looked at.
        progress: function that is told how many images were looked at, and of how many.

    Attributes:
        num_images: how many images were looked at.
        means: floats `(m,)`, as of `StrongestPlaces`.

    Raises:
        ValueError: if none of the images can be read.
    """

    def __init__(self, view, collection, progress=lambda done, total: None):
        self._recipe = view.model.recipe
        self._sample = collection.sample(MAX_IMAGES)
        self.num_images = len(self._sample.indices)
        if not self.num_images:
            raise ValueError("None of the images can be read.")
        self._found = strongest_places(self._maps(view, progress))
        self.means = self._found.means

    def _maps(self, view, progress):
        done = 0
        for images, _ in self._batches(self._sample.indices):
            progress(done, self.num_images)
            yield view.attributes(images)
            done += len(images)

    def _batches(self, indices):
        return evaluation_batches(self._recipe, self._sample.images, indices)

    def patches(self, prototype, count=PATCHES):
        """The strongest patches for a prototype, at most one of an image, strongest first.

        Args:
            prototype: which one.
            count: how many patches.

        Returns:
            list of `Patch`.
        """
        rows = self._found.strongest(prototype, count)
        indices = self._sample.indices[rows]
        images = [image for batch, _ in self._batches(indices) for image in batch.numpy()]
        return [self._patch(row, prototype, image) for row, image in zip(rows, images, strict=True)]

    def _patch(self, row, prototype, image):
        height, width = self._found.grid
        down, right = divmod(int(self._found.places[row, prototype]), width)
        cell = (down / height, right / width, 1 / height, 1 / width)
        return Patch(
            as_pixels(image),
            float(self._found.shares[row, prototype]),
            cell,
            window_around(cell),
            self._sample.names[row],
            self._sample.labels[row],
        )


def window_around(cell):
    """The square around a place that a patch shows.

    Args:
        cell: top, left, height and width of the place as shares of the image.

    Returns:
        the same of the square, as wide as three places or a quarter of the image, moved into it.

    Example:
        >>> window_around((0.0, 0.5, 0.125, 0.125))
        (0.0, 0.375, 0.375, 0.375)
    """
    side = min(1.0, max(1 / _CONTEXT, _CELLS * max(cell[2:])))
    top, left = (
        min(max(start + size / 2 - side / 2, 0.0), 1 - side)
        for start, size in zip(cell[:2], cell[2:], strict=True)
    )
    return top, left, side, side
