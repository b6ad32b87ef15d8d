"""The places of images with the largest shares in a prototype."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from gsp_tf.runs import evaluation_batches
from gsp_tf.search.explore._model_view import ModelView, as_pixels
from gsp_tf.search.explore._searched import Searched

MAX_IMAGES = 1000
_PATCHES = 12
_CONTEXT = 4  # a patch is at least a quarter of the image wide
_CELLS = 3  # and at least this many places wide

Box = tuple[float, float, float, float]
"""Top, left, height and width as fractions of an image."""


class StrongestPlaces(NamedTuple):
    """For each of N images and m prototypes, the place with the largest share."""

    shares: np.ndarray  # (N, m), share of the embedding through the prototype and this place
    places: np.ndarray  # (N, m), row-major index of the place
    grid: tuple[int, int]  # H and W
    means: np.ndarray  # (m,), mean over images of the share of all places: z in eq. 4.3 of GSP

    def strongest(self, prototype: int, count: int) -> np.ndarray:
        """The images with the largest shares in a prototype, largest first."""
        return np.argsort(-self.shares[:, prototype], kind="stable")[:count]


def strongest_places(maps: Iterable[np.ndarray]) -> StrongestPlaces:
    """The strongest places in batches of attribute maps `(B, H, W, m)`; ties go to the first."""
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
        self._found = strongest_places(self._maps(view, progress))
        self.means = self._found.means

    def _maps(self, view, progress):
        done = 0
        for images, _ in self._batches(self._sample.indices):
            progress(done, self.num_images)
            yield view.attributes(images)
            done += len(images)

    def _batches(self, indices):
        """Batches of images of the sample, prepared for the model."""
        return evaluation_batches(self._recipe, self._sample.images, indices)

    def patches(self, prototype: int, count: int = _PATCHES) -> list[Patch]:
        """The strongest patches of a prototype, at most one per image, strongest first."""
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


def window_around(cell: Box) -> Box:
    """A square around a place, at least 3 places and 1/4 image wide, shifted into the image."""
    side = min(1.0, max(1 / _CONTEXT, _CELLS * max(cell[2:])))
    top, left = (
        min(max(start + size / 2 - side / 2, 0.0), 1 - side)
        for start, size in zip(cell[:2], cell[2:], strict=True)
    )
    return top, left, side, side
