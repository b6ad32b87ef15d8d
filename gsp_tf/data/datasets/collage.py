"""The Cifar Collage protocol for any labelled set: one tile of the class among clutter."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from gsp_tf._arguments import check_sizes, checked_seed
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import Tensor
from gsp_tf.data.images.image_set import ArrayImages, ImageSet, checked_indices
from gsp_tf.data.splits import split_classes

_BACKGROUND_FRACTION = 0.2
_FEWEST_GROUPS = 3


class CollageImages(ImageSet):
    """Collages of `grid` x `grid` tiles; one, at a random place, shows the labelled class.

    Section 5.1 of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric Learning", ICCV 2023.
    The other tiles are drawn uniformly from the background images. The seed given to `load` fixes
    the place and the tiles: new seeds give new collages (training), and seed `(0, index)` always
    gives the same one (evaluation).

    Args:
        foreground: The labelled tiles, one per collage.
        background: The clutter, with the same tile size and channels.
        grid: Tiles per side.

    Example:
        >>> ink = ArrayImages(np.full((2, 4, 4, 1), 255, "uint8"), [0, 1], ["a", "b"])
        >>> blank = ArrayImages(np.zeros((2, 4, 4, 1), "uint8"), [0, 1], ["c", "d"])
        >>> collages = CollageImages(ink, blank, grid=2)
        >>> collages.image(0).shape, int((collages.image(0) == 255).sum())
        ((8, 8, 1), 16)
        >>> bool(((collages.image(0)[::4, ::4, 0] > 0) == collages.foreground_masks([0])[0]).all())
        True
    """

    def __init__(self, foreground: ArrayImages, background: ArrayImages, grid: int = 2):
        check_tiles(foreground)
        check_tiles(background)
        if foreground.images.shape[1:] != background.images.shape[1:]:
            raise ValueError(
                "foreground and background tiles must have one shape; received "
                f"{foreground.images.shape[1:]} and {background.images.shape[1:]}."
            )
        if len(background) == 0:
            raise ValueError("the background must hold at least one image; received none.")
        check_sizes(grid=grid)
        super().__init__(
            foreground.labels, foreground.class_names, foreground.groups, foreground.channels
        )
        self.foreground = foreground
        self.background = background
        self.grid = grid

    def load(self, index: Tensor, seed: Tensor) -> Tensor:
        place, chosen = self._draw(seed)
        clutter = tf.gather(self.background.tensor, chosen)
        labelled = tf.gather(self.foreground.tensor, index)[tf.newaxis]
        tiles = tf.concat([clutter[:place], labelled, clutter[place:]], axis=0)
        return stitched(tiles, self.grid, self.grid)

    def subset(self, classes: Sequence[int]) -> "CollageImages":
        return CollageImages(self.foreground.subset(classes), self.background, self.grid)

    def foreground_masks(self, indices: Sequence[int] | None = None) -> np.ndarray:
        """The place of the labelled tile in each collage that evaluation sees.

        Args:
            indices: Integers `(n,)`, the collages; all by default.

        Returns:
            bool `(n, grid, grid)`, true at the labelled tile of each collage.
        """
        indices = checked_indices(indices, len(self))
        seeds = np.stack([np.zeros_like(indices), indices], axis=1)
        drawn = tf.data.Dataset.from_tensor_slices(seeds).map(lambda seed: self._draw(seed)[0])
        places = list(drawn.as_numpy_iterator())
        masks = np.zeros((len(indices), self.grid**2), bool)
        masks[np.arange(len(indices)), places] = True
        return masks.reshape(-1, self.grid, self.grid)

    def _draw(self, seed: Tensor) -> tuple[Tensor, Tensor]:
        """The place of the labelled tile, and the background images of the other tiles."""
        tiles = self.grid**2
        draws = tf.random.stateless_uniform((tiles,), seed, None, None, tf.uint32)
        place = tf.cast(draws[0] % tiles, tf.int32)
        chosen = tf.cast(draws[1:] % len(self.background), tf.int64)
        return place, chosen


def stitched(tiles: Tensor, rows: int, columns: int) -> Tensor:
    """One image of tiles `(rows * columns, H, W, channels)`."""
    height, width, channels = tiles.shape[1:]
    tiles = tf.reshape(tiles, (rows, columns, height, width, channels))
    lines = tf.transpose(tiles, (0, 2, 1, 3, 4))
    return tf.reshape(lines, (rows * height, columns * width, channels))


def check_tiles(tiles: ImageSet) -> None:
    """Refuses images of several sizes, and of values that would be rounded in a picture."""
    if not isinstance(tiles, ArrayImages):
        raise TypeError(f"tiles must be ArrayImages, of one size; received {type(tiles).__name__}.")
    check_uint8(tiles)


def check_uint8(images: ImageSet) -> None:
    """Refuses images of other values, which would be rounded on the way into a picture."""
    if images.dtype != "uint8":
        raise ValueError(
            "collages and canvases are made of uint8 images in [0, 255]; received images whose "
            f"pixels are {images.dtype}."
        )


def collage_splits(
    images: ArrayImages,
    background_groups: Sequence[str] | None = None,
    fractions: Sequence[float] = (0.5, 0.1, 0.4),
    grid: int = 2,
    seed: int = 0,
    label: Literal["class", "super_class"] = "class",
) -> tuple[CollageImages | None, CollageImages | None, CollageImages | None]:
    """Makes train, validation and test collages of a set by the Cifar Collage protocol.

    Section 5.1 of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric Learning", ICCV 2023.
    Some groups (super-classes) are background. Foreground and background classes are both split
    into train, validation and test. On unseen classes, a model can tell foreground from background
    only by what the classes of a group have in common.

    Args:
        images: Tiles with labels and groups.
        background_groups: Names of the background groups. `None` chooses a random fifth of the
            groups, or of the classes if there are fewer than three groups. An empty sequence
            chooses a random fifth of the classes, whatever their groups.
        fractions: Fractions of the foreground classes and of the background classes for train,
            validation and test; they sum to 1.
        grid: Tiles per side of a collage.
        seed: Seed of the choice of background and of both splits.
        label: Label of a collage: the class or the group of its labelled tile. All parts have the
            same groups but different classes.

    Returns:
        `(train, validation, test)`; `None` for a fraction of 0.

    Raises:
        ValueError: If a split would hold fewer than two classes of foreground or background.

    Example:
        >>> names = [f"{group}{i}" for group in "xyz" for i in range(6)]
        >>> tiles = ArrayImages(
        ...     np.zeros((18, 4, 4, 1), "uint8"), range(18), names, [name[0] for name in names]
        ... )
        >>> train, validation, test = collage_splits(tiles, ["z"], (0.5, 0.0, 0.5))
        >>> sorted(set(test.foreground.groups)), sorted(set(test.background.groups))
        (['x', 'y'], ['z'])
    """
    is_background = _choose_background(
        images, background_groups, np.random.default_rng(checked_seed(seed))
    )
    parts = {}
    for role, chosen in (("foreground", ~is_background), ("background", is_background)):
        classes = np.flatnonzero(chosen)
        if len(classes) == 0:
            raise ValueError(f"no class is left for the {role} of the collages.")
        try:
            parts[role] = split_classes(images.subset(classes), fractions, seed)
        except ValueError as error:
            raise ValueError(f"{role} of the collages: {error}") from error
    return tuple(
        None if foreground is None else labelled_collages(foreground, background, grid, label)
        for foreground, background in zip(parts["foreground"], parts["background"], strict=True)
    )


def labelled_collages(
    foreground: ArrayImages,
    background: ArrayImages,
    grid: int,
    label: Literal["class", "super_class"],
) -> CollageImages:
    """Collages labelled with the class or the super-class of the labelled tile."""
    return CollageImages(
        foreground.by_group() if label == "super_class" else foreground, background, grid
    )


def _choose_background(images, background_groups, rng) -> np.ndarray:
    """A mask of the classes that are background."""
    groups = np.asarray(images.groups)
    known = np.unique(groups)
    if background_groups:
        unknown = sorted(set(background_groups) - set(known.tolist()))
        if unknown:
            raise ValueError(
                f"unknown background groups {unknown}; the groups are {known.tolist()}."
            )
        return np.isin(groups, list(background_groups))
    if background_groups is None and len(known) >= _FEWEST_GROUPS:
        return np.isin(groups, _random_fraction(known, rng))
    return np.isin(np.arange(len(groups)), _random_fraction(np.arange(len(groups)), rng))


def _random_fraction(items: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(items, max(1, round(_BACKGROUND_FRACTION * len(items))), replace=False)
