"""The sections of a recipe about data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from jsonargparse.typing import NonNegativeInt

from gsp_tf._names import NAMES
from gsp_tf.recipe._ranges import Count, PositiveShare, Section

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

    grid: NonNegativeInt = 0
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
    tile_size: Count = 32
    seed: NonNegativeInt = 0


@dataclass(frozen=True)
class DataRecipe(Section, path="data"):
    """Images, their split into training, validation and test classes, and the batches.

    Args:
        name: glyphs (letters rendered from fonts, no download), folder (one folder per class),
            manifest (a CSV file with the columns path, label, split), or a published set;
            docs/datasets.md lists the files of each. cub200, cars196, sop and in_shop have official
            halves, cifar_collage has its own splits.
        path: folder of the images or of the official files, or the CSV file; relative to the
            current folder. glyphs ignores it.
        download: download missing official files into the folder.
        image_size: side of the square images the model sees, in pixels.
        channels: 1 for grey, 3 for colour; glyphs, omniglot and mnist are grey, cifar sets colour.
        split_fractions: shares of the classes for training, validation and test with
            protocol.name=fractions; they add up to 1. A split column of a manifest replaces them.
        split_seed: seed of the split and of the choice of background super-classes.
        collage: how to make collages of the images.
        canvas: how to put the images on canvases of other images, to measure what clutter does.
        classes_per_batch: P, classes in a training batch.
        images_per_class: K, images of each class in a training batch.
        horizontal_flip: mirror training images at random.
        min_crop_area: smallest area of a random crop of a training image, as a share of its central
            square; 1 does not crop. The papers crop sides of 40 to 256 pixels from images with a
            shorter side of 256, which is a share of 0.0244; their programs use 0.16.
        resize: shorter side in pixels to which evaluation scales an image before it takes the
            central square of image_size; null takes the whole central square.
        cache: folder for copies of the images with a shorter side of resize, or else of image_size,
            so that no epoch decodes the files again (about 0.3 MB per image at 256); null makes
            none.
        skip_unreadable: continue without image files that cannot be read.
        min_images_per_class: leave out classes of a folder or a manifest with fewer images; an
            image alone in its class has nothing to retrieve.

    Example:
        >>> DataRecipe("cub200", path="birds").image_size
        48
    """

    name: DataName = "glyphs"
    path: str | None = None
    download: bool = False
    image_size: Count = 48
    channels: Literal[1, 3] = 3
    split_fractions: tuple[float, float, float] = (0.5, 0.1, 0.4)
    split_seed: NonNegativeInt = 0
    collage: CollageRecipe = field(default_factory=CollageRecipe)
    canvas: CanvasRecipe = field(default_factory=CanvasRecipe)
    classes_per_batch: Count = 16
    images_per_class: Count = 4
    horizontal_flip: bool = False
    min_crop_area: PositiveShare = 1.0
    resize: int | None = None
    cache: str | None = None
    skip_unreadable: bool = False
    min_images_per_class: Count = 2

    def check(self):
        if self.resize is not None and self.resize < self.image_size:
            self.refuse("resize", f"null, or data.image_size, {self.image_size}, or more")
        if self.canvas.name is not None:
            if self.collage.grid or self.name == "cifar_collage":
                self.refuse("canvas.name", "null with collages", self.canvas.name)
            if self.resize is not None:
                self.refuse("resize", "null with data.canvas.name, whose canvases are not cropped")
        if self.collage.label != "class" and not self.collage.grid and self.name != "cifar_collage":
            collages = "data.collage.grid above 0 or data.name=cifar_collage"
            self.refuse("collage.label", f"class without {collages}", self.collage.label)
        shares = self.split_fractions
        if min(shares) <= 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
            accepted = "three positive shares (training, validation, test) that add up to 1"
            self.refuse("split_fractions", accepted)
