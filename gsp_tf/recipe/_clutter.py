"""The sections of a recipe that put images among others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gsp_tf._names import NAMES
from gsp_tf._numbers import PositiveShare, Seed, Size, SizeOrZero
from gsp_tf.recipe._ranges import Section

DataName = Literal[tuple(NAMES["data"])]


@dataclass(frozen=True)
class CollageRecipe(Section, path="data.collage"):
    """Collages of labelled and background tiles (GSP paper, section 5.1).

    Args:
        grid: tiles along each side of an image; 0 makes no collages (2 x 2 with cifar_collage), 1
            shows the labelled tile alone, from the same classes.
        background_groups: names of the super-classes (scripts, alphabets) of the background tiles;
            null chooses about a fifth of them by the split seed, [] chooses a fifth of the classes
            and ignores super-classes.
        label: label of a collage: the class or the super-class of its labelled tile. Training and
            test share super-classes but no classes.

    Example:
        >>> CollageRecipe(grid=2).label
        'class'
    """

    grid: SizeOrZero = 0
    background_groups: list[str] | None = None
    label: Literal["class", "super_class"] = "class"


@dataclass(frozen=True)
class CanvasRecipe(Section, path="data.canvas"):
    """Canvases of other images, on which each image covers a share of the picture.

    Args:
        name: data set of the tiles that make up the canvases, such as cifar100, or folder; null
            makes no canvases. The first half of its classes is behind training images, the second
            half behind all others.
        path: folder or CSV file of that data set.
        share: share of the picture's area that an image covers; 1 shows it alone.
        tile_size: side of a tile in pixels.
        seed: seed of places and tiles; each image keeps its own.

    Example:
        >>> CanvasRecipe("cifar100", "data/cifar100", share=0.2).tile_size
        32
    """

    name: DataName | None = None
    path: str | None = None
    share: PositiveShare = 0.4
    tile_size: Size = 32
    seed: Seed = 0
