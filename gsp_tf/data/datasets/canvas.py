"""Images on canvases of other images: the same objects with more or less clutter around them."""

import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from gsp_tf._arguments import check_sizes, checked_seed
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor
from gsp_tf.data.datasets.collage import check_tiles, check_uint8, stitched
from gsp_tf.data.images.image_set import ArrayImages, ImageSet, checked_indices
from gsp_tf.data.pipeline.view import central_window, resize_window


class CanvasImages(ImageSet):
    """Images that each cover a part of a square canvas; tiles of other images cover the rest.

    The central square of an image, resized, covers a given share of its canvas, at a random place.
    The tiles form a grid from the top left corner, cut off at the right and the bottom, and are
    drawn uniformly. Place and tiles follow from `seed` and the image: unlike `CollageImages`, an
    image has one canvas, in training, in evaluation and in every subset. A share of 1 gives the
    plain images, so a sweep over shares measures what clutter does to retrieval.

    Args:
        images: The labelled images, of any size.
        tiles: The clutter.
        side: S, side of a canvas in pixels.
        share: Share of the area of a canvas that its image covers, in (0, 1].
        seed: Seed of places and tiles.

    Attributes:
        object_side: Side of the square that an image covers, in pixels: `√share S`, rounded.

    Example:
        >>> white = ArrayImages(np.full((2, 6, 8, 1), 255, "uint8"), [0, 1], ["a", "b"])
        >>> black = ArrayImages(np.zeros((5, 4, 4, 1), "uint8"), [0] * 5, ["clutter"])
        >>> canvases = CanvasImages(white, black, side=10, share=0.36)
        >>> canvases.image(0).shape, int(canvases.foreground_masks([0]).sum())
        ((10, 10, 1), 36)
    """

    def __init__(
        self, images: ImageSet, tiles: ArrayImages, side: int, share: float, seed: int = 0
    ):
        check_tiles(tiles)
        check_uint8(images)
        if images.channels != tiles.channels:
            raise ValueError(
                f"images and tiles must have the same channels; received {images.channels} and "
                f"{tiles.channels}."
            )
        if len(tiles) == 0:
            raise ValueError("tiles must hold at least one image; received none.")
        check_sizes(side=side)
        if not 0 < share <= 1:
            raise ValueError(f"share must lie in (0, 1]; received {share}.")
        super().__init__(images.labels, images.class_names, images.groups, images.channels)
        self.images = images
        self.tiles = tiles
        self.side = side
        self.share = share
        self.seed = checked_seed(seed)
        self.object_side = max(1, round(share**0.5 * side))
        self._numbers = np.arange(len(images))  # of the images before any subset

    def load(self, index: Tensor, seed: Tensor) -> Tensor:
        def choose(size):
            return central_window(size, self.object_side, None)

        top, left, chosen = self._draw(index)
        canvas = stitched(tf.gather(self.tiles.tensor, chosen), *self._grid())
        window = self.images.load_window(index, seed, choose, self.object_side)
        resized = resize_window(window, self.object_side, self.channels)
        shown = tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8)
        bottom, right = (self.side - self.object_side - start for start in (top, left))
        margins = [[top, bottom], [left, right], [0, 0]]
        is_shown = tf.pad(tf.ones_like(shown, tf.bool), margins)
        canvas = tf.where(is_shown, tf.pad(shown, margins), canvas[: self.side, : self.side])
        return tf.ensure_shape(canvas, (self.side, self.side, self.channels))

    def identity(self, index: int) -> bytes:
        """The identity of the image itself, and what its canvas depends on."""
        view = f"{self.side} {self.share} {self.seed} {self._numbers[index]}\n".encode()
        return view + self._tiles_digest + self.images.identity(index)

    @functools.cached_property
    def _tiles_digest(self) -> bytes:
        """A digest of all tiles."""
        pixels = np.ascontiguousarray(self.tiles.images)
        return hashlib.sha256(f"{pixels.shape}".encode() + pixels.tobytes()).digest()

    def subset(self, classes: Sequence[int]) -> "CanvasImages":
        kept, _ = self._select(classes)
        images = self.images.subset(classes)
        part = CanvasImages(images, self.tiles, self.side, self.share, self.seed)
        part._numbers = self._numbers[kept]
        return part

    def foreground_masks(self, indices: Sequence[int] | None = None) -> np.ndarray:
        """The part of each canvas that its image covers.

        Args:
            indices: Integers `(n,)`, the canvases; all by default.

        Returns:
            bool `(n, S, S)`, true where the image is, such as `foreground_share` takes.
        """
        indices = checked_indices(indices, len(self))
        masks = np.zeros((len(indices), self.side, self.side), bool)
        drawn = tf.data.Dataset.from_tensor_slices(indices).map(lambda i: self._draw(i)[:2])
        for mask, (top, left) in zip(masks, drawn.as_numpy_iterator(), strict=True):
            mask[top : top + self.object_side, left : left + self.object_side] = True
        return masks

    def _grid(self) -> tuple[int, int]:
        """Rows and columns of the tiles that cover a canvas."""
        height, width = self.tiles.images.shape[1:3]
        return -(-self.side // height), -(-self.side // width)

    def _draw(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Top and left of the image on its canvas, and the tiles."""
        rows, columns = self._grid()
        number = tf.gather(tf.constant(self._numbers, tf.int64), index)
        seed = tf.stack([tf.constant(self.seed, tf.int64), number])
        draws = tf.random.stateless_uniform((2 + rows * columns,), seed, None, None, tf.uint32)
        top, left = tf.unstack(tf.cast(draws[:2] % (self.side - self.object_side + 1), tf.int32))
        return top, left, tf.cast(draws[2:] % len(self.tiles), tf.int64)
