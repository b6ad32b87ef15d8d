"""The section of a recipe about images and batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from gsp_tf._names import NAMES
from gsp_tf._numbers import LARGEST_SIZE, Count, PositiveShare, Seed, Size, SizeOrZero
from gsp_tf.recipe._ranges import Section

_Layer = dict[str, bool | int | float | str | list[int] | list[float] | None]


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


@dataclass(frozen=True)
class DataRecipe(Section, path="data"):
    """Images, their split into training, validation and test classes, and the batches.

    Args:
        name: glyphs (letters rendered from fonts, no download), folder (one folder per class),
            manifest (a CSV file with the columns path, label, split), or a published set, whose
            files its loader in gsp_tf.data describes. cub200, cars196, sop and in_shop have
            official halves, cifar_collage has its own splits.
        path: folder of the images or of the official files, or the CSV file; relative to the
            current folder. glyphs ignores it.
        download: download missing official files into the folder.
        image_size: side of the square images the model sees, in pixels.
        channels: 1 for grey, 3 for colour; glyphs, omniglot and mnist are grey, cifar sets colour.
        split_fractions: shares of the classes for training, validation and test with
            protocol.name=fractions, or of the images of each class with trainer=classification;
            they add up to 1. A split column of a manifest replaces them.
        split_seed: seed of the split and of the choice of background super-classes.
        collage: how to make collages of the images.
        canvas: how to put the images on canvases of other images, to measure what clutter does.
        unlabelled: folder of images without a class, at any depth, or a CSV file, whose rows
            without a label are these images; they train beside those of data.path. It may be
            data.path itself: then these are the images outside the class folders, or the rows
            without a label. data.name=unlabelled has images of this kind alone.
        classes_per_batch: P, classes in a training batch; 0 draws no image by its class.
        images_per_class: K, images of each class in a training batch.
        cycle_images: show every image of a class once before any image of that class comes again.
        unlabelled_per_batch: images in a training batch that are drawn from those without a class,
            or from all training images with data.classes_per_batch=0. Their classes, if they have
            any, are not looked at.
        views: views of each image in a training batch, 1 or 2, each with its own crop, flip and
            augmentation. Two are for losses that compare views: view_loss, barlow_twins, sim_siam,
            vicreg, or loss_wrapper.name=self_supervised.
        horizontal_flip: mirror training images at random.
        min_crop_area: smallest area of a random crop of a training image, as a share of its central
            square; 1 does not crop. The papers crop sides of 40 to 256 pixels from images with a
            shorter side of 256, which is a share of 0.0244; their programs use 0.16.
        augmentation: random changes of training images after crop and flip, in this order: names of
            image layers of Keras with their options, such as [{name: color_jitter, hue_factor:
            0.1}, {name: grayscale, factor: 0.2}].
        resize: shorter side in pixels to which evaluation scales an image before it takes the
            central square of image_size; null takes the whole central square.
        cache: folder for decoded copies of the images, so that no epoch decodes the files again.
            Their shorter side is resize (about 0.3 MB per image at 256), or else as large as the
            smallest crop needs: image_size over the root of min_crop_area. null makes none.
        feature_cache: folder for the features that the frozen part of the network
            (backbone.frozen_to) gives for each image, in float16. They are computed once; training
            and evaluation run from them, without the images. The view is the fixed central square,
            mirrored with horizontal_flip, so min_crop_area must be 1, and there is no
            augmentation. Training draws collages for each batch: theirs are kept for evaluation
            alone. null trains from the images.
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
    image_size: Size = 48
    channels: Literal[1, 3] = 3
    split_fractions: tuple[float, float, float] = (0.5, 0.1, 0.4)
    split_seed: Seed = 0
    collage: CollageRecipe = field(default_factory=CollageRecipe)
    canvas: CanvasRecipe = field(default_factory=CanvasRecipe)
    unlabelled: str | None = None
    classes_per_batch: SizeOrZero = 16
    images_per_class: Size = 4
    cycle_images: bool = False
    unlabelled_per_batch: SizeOrZero = 0
    views: Literal[1, 2] = 1
    horizontal_flip: bool = False
    min_crop_area: PositiveShare = 1.0
    augmentation: list[_Layer] = field(default_factory=list)
    resize: Size | None = None
    cache: str | None = None
    feature_cache: str | None = None
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
        if self.feature_cache is not None and self.min_crop_area != 1:
            accepted = "null with data.min_crop_area below 1: features are of one fixed view"
            self.refuse("feature_cache", accepted)
        for name, default in (("augmentation", []), ("views", 1)):
            if self.feature_cache is not None and getattr(self, name) != default:
                accepted = f"null with data.{name}: features are of one fixed view"
                self.refuse("feature_cache", accepted)
        if self.collage.label != "class" and not self.collage.grid and self.name != "cifar_collage":
            collages = "data.collage.grid above 0 or data.name=cifar_collage"
            self.refuse("collage.label", f"class without {collages}", self.collage.label)
        self._check_views()
        self._check_batch()
        shares = self.split_fractions
        if min(shares) <= 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
            accepted = "three positive shares (training, validation, test) that add up to 1"
            self.refuse("split_fractions", accepted)

    def _check_batch(self):
        by_class = self.classes_per_batch * self.images_per_class
        images = (by_class + self.unlabelled_per_batch) * self.views
        if images > LARGEST_SIZE:
            names = "classes_per_batch", "images_per_class", "unlabelled_per_batch"
            accepted = f"smaller: a batch has at most {LARGEST_SIZE:,} images, not {images:,}"
            self.refuse(max(names, key=lambda name: getattr(self, name)), accepted)

    def _check_views(self):
        """Refuse batches that cannot be filled, or from which nothing can be learned."""
        by_class, unlabelled = self.classes_per_batch, self.unlabelled_per_batch
        is_single, is_alone = self.views == 1, self.name == "unlabelled"
        has_more = self.unlabelled is not None
        two = "with data.views=1: an image without a class is learned from by its two views"
        alone = "with data.name=unlabelled, whose images have no class"
        none = "with data.classes_per_batch=0"
        own = "without data.unlabelled; data.classes_per_batch=0 draws from all images"
        for is_broken, name, accepted in (
            (is_single and is_alone, "views", f"2 {alone}"),
            (is_single and has_more, "unlabelled", f"null {two}"),
            (is_single and unlabelled, "unlabelled_per_batch", f"0 {two}"),
            (is_single and not by_class, "classes_per_batch", "1 or more with data.views=1"),
            (is_alone and by_class, "classes_per_batch", f"0 {alone}"),
            (is_alone and has_more, "unlabelled", f"null {alone}"),
            (is_alone and self.collage.grid, "name", "a set with classes with collages"),
            (is_alone and self.canvas.name, "name", "a set with classes with data.canvas.name"),
            (has_more and not unlabelled, "unlabelled_per_batch", "1 or more with data.unlabelled"),
            (not by_class and not unlabelled, "unlabelled_per_batch", f"1 or more {none}"),
            (by_class and unlabelled and not has_more, "unlabelled_per_batch", f"0 {own}"),
        ):
            if is_broken:
                self.refuse(name, accepted)
