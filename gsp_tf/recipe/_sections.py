"""The sections of a recipe."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Number
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from jsonargparse.typing import ClosedUnitInterval, OpenUnitInterval

from gsp_tf._names import NAMES, similar
from gsp_tf._numbers import (
    LARGEST_SIZE,
    Count,
    CountOrZero,
    NonNegative,
    Positive,
    PositiveShare,
    Seed,
    ShareBelowOne,
    Size,
    SizeOrZero,
    checked,
)
from gsp_tf._refusals import described


def check_known(name, known, field, what):
    """Refuse an unknown name, by that of its field, with the most similar known one, or all."""
    if name not in known:
        hint = similar(name, known)
        if hint == ".":
            hint = f"; there are {', '.join(known)}." if known else ", which takes none."
        raise ValueError(f"{field:.80} is not {what}{hint}")


@dataclass(frozen=True)
class Section:
    """A section of a recipe, which refuses values of other types, and numbers out of range."""

    section_path: ClassVar[str] = ""

    def __init_subclass__(cls, path: str = "") -> None:
        cls.section_path = f"{path}." if path else ""

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            value = getattr(self, name)
            if not _fits(value, hint):
                self.refuse(name, described(hint))
            object.__setattr__(self, name, checked(value, f"{self.section_path}{name}", hint))
        self.check()

    def check(self) -> None:
        """Refuse incompatible values."""

    def refuse(self, name, accepted):
        """Raise `ValueError` about a field, or one of a section in it, such as `canvas.name`."""
        received = attrgetter(name)(self)
        received = received.name if isinstance(received, ClassRecipe) else received
        received = "null" if received is None else received
        raise ValueError(f"{self.section_path}{name} must be {accepted}, received {received}.")


@cache
def _hints(section):
    hints = get_type_hints(section)
    return {field.name: hints[field.name] for field in fields(section)}


def _fits(value, hint):
    """Whether a value is of a type, apart from the parts of lists and mappings, and ranges."""
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in get_args(hint))
    if origin in (list, tuple):
        return isinstance(value, list | tuple)
    if hasattr(origin, "_restrictions"):
        return isinstance(value, Number)
    return origin is Any or isinstance(value, origin)


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
            smallest crop needs: image_size over the root of min_crop_area, and at least twice
            image_size. null makes none.
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

    @classmethod
    def of_photographs(cls, path: str | os.PathLike, **fields: Any) -> Self:
        """How photographs are read from a folder, or by a .csv file that lists them.

        Args:
            path: folder with one folder of photographs per class, or .csv file with the columns
                path, label and, if there is one, split.
            fields: other fields.

        Returns:
            the section, by which unreadable files are left out.
        """
        is_manifest = Path(path).suffix.lower() == ".csv" and not Path(path).is_dir()
        name = "manifest" if is_manifest else "folder"
        return cls(name, path=str(path), skip_unreadable=True, **fields)

    def check(self):
        if self.resize is not None and self.resize < self.image_size:
            self.refuse("resize", f"null, or data.image_size, {self.image_size}, or more")
        if self.canvas.name is not None:
            if self.collage.grid or self.name == "cifar_collage":
                self.refuse("canvas.name", "null with collages")
            if self.resize is not None:
                self.refuse("resize", "null with data.canvas.name, whose canvases are not cropped")
        for is_changed, name in (
            (self.min_crop_area != 1, "min_crop_area below 1"),
            (self.augmentation, "augmentation"),
            (self.views != 1, "views"),
        ):
            if is_changed and self.feature_cache is not None:
                accepted = f"null with data.{name}: features are of one fixed view"
                self.refuse("feature_cache", accepted)
        if self.collage.label != "class" and not self.collage.grid and self.name != "cifar_collage":
            collages = "data.collage.grid above 0 or data.name=cifar_collage"
            self.refuse("collage.label", f"class without {collages}")
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
        views = "with data.name=unlabelled, whose views that evaluate are not cropped again"
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
            (is_alone and self.resize, "resize", f"null {views}"),
            (has_more and not unlabelled, "unlabelled_per_batch", "1 or more with data.unlabelled"),
            (not by_class and not unlabelled, "unlabelled_per_batch", f"1 or more {none}"),
            (by_class and unlabelled and not has_more, "unlabelled_per_batch", f"0 {own}"),
        ):
            if is_broken:
                self.refuse(name, accepted)


@dataclass(frozen=True)
class ProtocolRecipe(Section, path="protocol"):
    """Which classes train, choose the model and test.

    Args:
        name: fractions (classes shuffled and divided by data.split_fractions, or the splits of a
            manifest or of cifar_collage), mlrc (half of the classes test; the others form folds,
            with a model for each), conventional (the test classes choose the model), ablation (2/3
            of the training half train, 1/3 choose the model) or tuning (4/5 train, 1/5 choose the
            model; nothing else is evaluated).
        num_folds: number of folds of mlrc.
        repeats: models per fold of mlrc, with different seeds; each choice of one per fold is
            evaluated.
        fold: the only fold of mlrc to train, from 0; its classes choose the model. null trains all.

    Example:
        >>> ProtocolRecipe("mlrc").is_ensemble
        True
    """

    name: Literal["fractions", "mlrc", "conventional", "ablation", "tuning"] = "fractions"
    num_folds: Size = 4
    repeats: Size = 1
    fold: SizeOrZero | None = None

    def check(self):
        if self.num_folds < 2:
            self.refuse("num_folds", "2 or more")
        if self.fold is not None and not 0 <= self.fold < self.num_folds:
            self.refuse("fold", f"null, or 0 to {self.num_folds - 1}")
        if self.fold is not None and self.name != "mlrc":
            self.refuse("fold", f"null with protocol.name={self.name}")
        if self.repeats != 1 and self.name != "mlrc":
            self.refuse("repeats", f"1 with protocol.name={self.name}")
        if self.num_folds != 4 and self.name != "mlrc":
            self.refuse("num_folds", f"4 with protocol.name={self.name}")
        if self.repeats != 1 and self.fold is not None:
            self.refuse("repeats", "1 with a fold")

    @property
    def is_ensemble(self) -> bool:
        """Whether the recipe trains one model for every fold and repeat."""
        return self.name == "mlrc" and self.fold is None

    @property
    def monitor(self) -> str:
        """The validation metric that chooses the model."""
        return "val_recall_at_1" if self.name == "conventional" else "val_map_at_r"


@dataclass(frozen=True)
class LoRARecipe(Section, path="backbone.lora"):
    """Low-rank adaptation: small matrices train in place of the weights of the backbone.

    The kernel of a layer is `W + alpha / rank * A B`, where W keeps its initial weights and A and B
    train (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022). Nothing else
    of the backbone trains. Saved models hold the sum.

    Args:
        rank: columns of A and rows of B; 0 turns it off.
        alpha: strength of the change; null is rank.
        layers: regular expressions; a layer with one of them in its path is adapted. An empty list
            adapts all dense, einsum, embedding and convolution layers of the backbone. Depthwise
            convolutions have no low-rank form.

    Example:
        >>> LoRARecipe(rank=8).alpha is None
        True
    """

    rank: SizeOrZero = 0
    alpha: Positive | None = None
    layers: list[str] = field(default_factory=list)

    def check(self):
        if not self.rank and self.alpha is not None:
            self.refuse("alpha", "null without a backbone.lora.rank")
        if not self.rank and self.layers:
            self.refuse("layers", "empty without a backbone.lora.rank")


@dataclass(frozen=True)
class BackboneRecipe(Section, path="backbone"):
    """The network from an image to its local features.

    Args:
        name: registered name, such as conv4, resnet20, bn_inception or resnet50; hub is the network
            of backbone.preset. gsp-tf backbones lists all.
        weights: initial weights: the path of a .weights.h5 file, such as gsp-tf convert-weights
            writes; a run folder, or its model.keras, with the same backbone; or the name of weights
            that are downloaded (imagenet for keras.applications, pretrained for hub) or that a
            package holds (imagenet for efficientnet_lite0). null starts from random weights.
        freeze_batch_normalization: keep initial batch normalisation statistics, scales and offsets.
        frozen_to: last layer of the frozen part, such as conv4_block6_out of resnet50. Layers up to
            it keep their weights, with batch normalisation in inference mode; network is all of
            them. null freezes none.
        freeze: regular expressions; the layers of the backbone with one of them in their path keep
            their weights, with batch normalisation in inference mode.
        lora: low-rank adaptation of the layers that are not frozen.
        preset: with backbone.name=hub, an image preset of keras-hub, such as dinov2_small or
            dinov3_vit_small_lvd1689m; an hf://user/model of Hugging Face; or a folder that
            save_to_preset wrote.
        tokens: local features that a vision transformer gives to the pooling: patch, or class for
            the class token alone. both pools the patch tokens, and adds a linear map of the class
            token to the embedding; with embedding.map=null it puts the two side by side.

    Example:
        >>> BackboneRecipe("resnet50", weights="imagenet").name
        'resnet50'
    """

    name: str = "resnet20"
    weights: str | None = None
    freeze_batch_normalization: bool = False
    frozen_to: str | None = None
    freeze: list[str] = field(default_factory=list)
    lora: LoRARecipe = field(default_factory=LoRARecipe)
    preset: str | None = None
    tokens: Literal["patch", "class", "both"] = "patch"

    def check(self):
        if self.preset is not None and self.name != "hub":
            self.refuse("preset", f"null with backbone.name={self.name}; it is for hub")
        if self.preset is None and self.name == "hub":
            self.refuse(
                "preset", "a preset with backbone.name=hub; gsp-tf backbones hub lists them"
            )
        if self.lora.rank and self.frozen_to == "network":
            self.lora.refuse("rank", "0 with backbone.frozen_to=network, which freezes all layers")
        if self.freeze and self.lora.rank:
            accepted = "empty with backbone.lora.rank above 0, which freezes the backbone"
            self.refuse("freeze", accepted)


@dataclass(frozen=True)
class EmbeddingRecipe(Section, path="embedding"):
    """The map to the embedding space, and its position.

    Args:
        dim: D, dimension of the embedding: of all groups together, of both heads of global_local
            together, or of the first branch of coded_residual and dense_branches. null keeps the
            dimension of the features, and the map starts as the identity.
        position: before_pooling maps every local feature (a 1x1 convolution), so that pooling
            weights depend on mapped features; after_pooling maps the pooled feature.
        map: linear; mlp, with a hidden layer as wide as the features, which is added to them if dim
            is null; or null for the features themselves, which takes dim null.
        whitening: start the linear map after the pooling as the one that makes the training images
            spread alike in all directions within their classes. It maps features of length 1, has a
            bias, and is computed from at most 10,000 images of at most 5,000 classes.
        second_dim: dimension of the embedding of the second branch, with the heads coded_residual
            and dense_branches only; null is 1024.

    Example:
        >>> EmbeddingRecipe(128).position
        'before_pooling'
    """

    dim: Size | None = 64
    position: Literal["before_pooling", "after_pooling"] = "before_pooling"
    map: Literal["linear", "mlp"] | None = "linear"
    whitening: bool = False
    second_dim: Size | None = None

    def check(self):
        is_after = self.map == "linear" and self.position == "after_pooling"
        if self.whitening and not is_after:
            accepted = "false without embedding.map=linear and embedding.position=after_pooling"
            self.refuse("whitening", accepted)
        if self.map is None and self.dim is not None:
            self.refuse("dim", "null with embedding.map=null, which keeps the features as they are")


@dataclass(frozen=True)
class ClassRecipe:
    """The name and the arguments of a class; in a file `{name: gsp, num_prototypes: 64, ...}`.

    Args:
        name: its name in the section.
        arguments: arguments of the class; the others keep their defaults.

    Example:
        >>> ClassRecipe("gsp", {"num_prototypes": 32}).arguments
        {'num_prototypes': 32}
    """

    name: str
    arguments: dict[str, bool | int | float | str | list | None] = field(default_factory=dict)

    def __post_init__(self):
        # Sequences are tuples, so that recipes from files and from signatures compare equal.
        arguments = {name: _with_tuples(value) for name, value in self.arguments.items()}
        object.__setattr__(self, "arguments", arguments)


def class_recipe(given):
    """The `ClassRecipe` of a mapping with the name among the arguments, as in a file."""
    arguments = dict(given)
    return ClassRecipe(arguments.pop("name"), arguments)


def _with_tuples(value):
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value


OptimizerName = Literal[tuple(NAMES["optimizer"])]
"""Names of the optimizers of Keras that a recipe may choose."""


@dataclass(frozen=True)
class ZeroShotRecipe(Section, path="zero_shot"):
    """The zero-shot prediction loss on the attributes of gsp.

    Args:
        weight: λ, its share of the total loss; 0 turns it off.
        embedding_dim: dimension of the class embeddings.
        ridge: penalty of the regression from attributes to class embeddings.
        scale: factor of the logits: 1 in the GSP paper, 9.5 in its authors' program.
        reduction: mean over the batch, as in the authors' program, or sum_of_means, the sum of the
            means over the two halves of the classes (GSP paper, eq. 4.4).

    Example:
        >>> ZeroShotRecipe(0.1).reduction
        'mean'
    """

    weight: ClosedUnitInterval = 0.0
    embedding_dim: Size = 64
    ridge: NonNegative = 0.05
    scale: Positive = 9.5
    reduction: Literal["mean", "sum_of_means"] = "mean"


@dataclass(frozen=True)
class CCPRecipe(Section, path="ccp"):
    """Training by alternating proxy problems, with trainer=ccp and a loss over pairs.

    Args:
        proxies_per_class: k, number of proxies of each class.
        pool_size: b, images of each class that the proxies of a problem are chosen from; with k or
            fewer the choice is random.
        projection_weight: λ, weight of half the squared distance from the previous solution.
        patience: epochs without a better validation MAP@R after which a problem ends.
        batch_weight: weight of the same loss within the batch; 0 gives the equation of the thesis.
        max_projections: largest number of problems; 1 trains throughout with proxies that represent
            the classes; null sets no limit.

    Example:
        >>> CCPRecipe(pool_size=7).proxies_per_class
        8
    """

    proxies_per_class: Size = 8
    pool_size: Size = 12
    projection_weight: NonNegative = 2e-4
    patience: Count = 3
    batch_weight: NonNegative = 0.1
    max_projections: Count | None = None


@dataclass(frozen=True)
class ScheduleRecipe(Section, path="training.schedule"):
    """How the learning rate changes after the warm-up.

    Args:
        name: constant, step (times decay_factor every decay_epochs epochs), cosine (half a cosine,
            updated every step, down to minimum at the end of training) or plateau (times
            decay_factor when the metric that chooses the model has not risen for patience epochs).
            The defaults of plateau are those of the CCP authors' program. Their thesis uses a
            constant rate in the fair evaluation, plateau with patience 4 in the conventional one
            (sections 3.3.2.1, 5.3.4.1), and factor 0.5 and patience 5 on Cifar Collage (section
            5.3.2).
        decay_factor: factor of each reduction of step and plateau.
        decay_epochs: epochs between two reductions of step.
        patience: epochs that plateau waits for a rise.
        min_delta: plateau counts only larger rises of that metric, which lies in 0 to 1.
        cooldown: epochs after a reduction that plateau does not count.
        minimum: final rate of cosine and lowest rate of plateau; null is 0 for cosine, 1e-6 for
            plateau.

    Example:
        >>> ScheduleRecipe("cosine").minimum is None
        True
    """

    name: Literal["constant", "step", "cosine", "plateau"] = "constant"
    decay_factor: OpenUnitInterval = 0.5
    decay_epochs: Count = 10
    patience: Count = 5
    min_delta: NonNegative = 1e-3
    cooldown: CountOrZero = 2
    minimum: NonNegative | None = None


@dataclass(frozen=True)
class TrainingRecipe(Section, path="training"):
    """Length, optimizer and precision of training.

    Args:
        epochs: number of epochs, including the warm-up; the validation classes are evaluated after
            each. 0 evaluates the model without training.
        steps_per_epoch: batches in an epoch.
        adapt_batches: training batches whose features give the initial prototypes of a pooling such
            as gsp, net_vlad or optimal_transport; 0 keeps random prototypes.
        adapt_from: those features: all local ones, or one pooled vector an image, their average, as
            in the GSP authors' program. The paper does not say where prototypes start.
        optimizer: optimizer of Keras: adam, adamw (adam with a weight_decay above 0), sgd (with
            momentum 0.9), or another by its name.
        optimizer_arguments: further arguments of the optimizer's class, such as {nesterov: true}
            for sgd.
        beta_2: decay rate of the mean of squared gradients in adam and adamw. The thesis of Gürbüz
            prints default moment parameters and .99; the default is .999, as in the authors'
            program and the recipes.
        learning_rate: step size, or initial step size with a schedule. GSP and CCP train pretrained
            backbones with adam and 1e-5 in the fair evaluation (thesis, sections 3.3.2.1, 5.3.4.1).
        learning_rate_multipliers: factors of the learning rate by regular expression. A weight
            takes the factor of the first expression found in its path, or 1. {proxies: 100} trains
            the proxies 100 times as fast; 0 leaves weights unchanged.
        lowest_layer_multiplier: layer-wise decay of the learning rate: the factor of the lowest
            layer of the backbone. From layer to layer it grows by the same ratio, up to 1 above the
            highest one. A match in learning_rate_multipliers replaces it. A decay of 0.75 per block
            of a transformer with 12 blocks is 0.03.
        schedule: change of the learning rate.
        warmup_steps: steps in which the learning rate rises in a straight line from 0, after the
            warm-up epochs, with the schedules constant and cosine.
        warmup_epochs: first epochs, which train everything but the backbone and keep its batch
            normalisation in inference mode. Then the optimizer starts again. The thesis warms up
            for 1 epoch with ProxyAnchor, ProxyNCA++ and SoftTriple, but not with pair losses or CCP
            (sections 3.3.2.1, 5.3.4.1).
        warmup_learning_rate_multiplier: factor of the learning rate in the warm-up, where the rate
            is constant.
        weight_decay: decoupled weight decay: each step subtracts the share learning_rate *
            weight_decay of each weight; 0 is none.
        l2_regularization: this factor times the weights is added to the gradients, before clipping
            and before the optimizer's own scaling; 0 is none. The thesis calls it weight decay,
            1e-4, and the authors' program applies it this way. Decoupled decay of 1e-4 at their
            learning rate would be too small for float32.
        weight_decay_exclusions: regular expressions; a weight with one of them in its path gets
            neither weight_decay nor l2_regularization. ["batch_normalization", "bias"] is common.
        ema_momentum: evaluate and save moving averages of the weights, with this share of the old
            average in each step after the warm-up, such as 0.99; 0 takes the weights themselves.
        gradient_accumulation_steps: steps whose gradients are averaged into one update. This is not
            a larger batch for a loss that compares images, which sees the images of a step;
            chunk_size is.
        clip_norm: largest norm of all gradients together; larger ones are scaled down to it, and
            null does not clip. The authors' programs of GSP and CCP clip at 10; their papers do not
            say.
        chunk_size: largest number of images that a step embeds at a time; null is the whole batch.
            The loss and its gradient are those of the whole batch, in the memory of a chunk, for
            about a third more computation (gradient caching, Gao et al. 2021).
        precision: Keras dtype policy of the embedder.
        jit_compile: compile the training step with XLA.
        patience: end training after this many epochs without a better value of the metric that
            chooses the model, counted from the end of the warm-up; null never does.
        health_every: steps between two looks at a batch that name what is wrong with training, such
            as collapsed embeddings (gsp_tf.training.HealthCheck); 0 never looks.
        deterministic: use operations that give the same numbers each time on the same machine;
            slower on a GPU.

    Example:
        >>> TrainingRecipe(epochs=3).steps_per_epoch
        100
    """

    epochs: CountOrZero = 10
    steps_per_epoch: Count = 100
    adapt_batches: CountOrZero = 0
    adapt_from: Literal["local", "pooled"] = "local"
    optimizer: OptimizerName = "adam"
    optimizer_arguments: dict[str, bool | int | float | str | list[str] | None] = field(
        default_factory=dict
    )
    beta_2: ShareBelowOne = 0.999
    learning_rate: Positive = 1e-3
    learning_rate_multipliers: dict[str, NonNegative] = field(default_factory=dict)
    lowest_layer_multiplier: PositiveShare = 1.0
    schedule: ScheduleRecipe = field(default_factory=ScheduleRecipe)
    warmup_steps: CountOrZero = 0
    warmup_epochs: CountOrZero = 0
    warmup_learning_rate_multiplier: Positive = 1.0
    weight_decay: NonNegative = 0.0
    l2_regularization: NonNegative = 0.0
    weight_decay_exclusions: list[str] = field(default_factory=list)
    ema_momentum: ShareBelowOne = 0.0
    gradient_accumulation_steps: Count = 1
    clip_norm: Positive | None = None
    chunk_size: Size | None = None
    precision: Literal["float32", "mixed_float16", "mixed_bfloat16"] = "float32"
    jit_compile: bool = False
    patience: Count | None = None
    health_every: CountOrZero = 200
    deterministic: bool = False

    def check(self):
        if self.beta_2 != 0.999 and self.optimizer not in ("adam", "adamw"):
            accepted = f"0.999, its default, with training.optimizer={self.optimizer}; it is for "
            self.refuse("beta_2", f"{accepted}adam and adamw")
        minimum = self.schedule.minimum
        if minimum is not None and minimum > self.learning_rate:
            accepted = f"at most training.learning_rate, {self.learning_rate}"
            self.refuse("schedule.minimum", accepted)
        if self.warmup_epochs and self.warmup_epochs >= self.epochs:
            self.refuse("warmup_epochs", f"below training.epochs, {self.epochs}")
        self._check_steps()
        if self.optimizer == "adamw" and not self.weight_decay:
            self.refuse("weight_decay", "above 0 with training.optimizer=adamw; adam needs none")
        if self.weight_decay_exclusions and not self.weight_decay + self.l2_regularization:
            accepted = "empty without a training.weight_decay or training.l2_regularization"
            self.refuse("weight_decay_exclusions", accepted)

    def _check_steps(self):
        schedule, accumulated = self.schedule.name, self.gradient_accumulation_steps
        if self.warmup_steps and schedule not in ("constant", "cosine"):
            accepted = f"0 with training.schedule.name={schedule}; it is for constant and cosine"
            self.refuse("warmup_steps", accepted)
        steps = (self.epochs - self.warmup_epochs) * self.steps_per_epoch
        if self.warmup_steps and self.warmup_steps >= steps:
            self.refuse("warmup_steps", f"below the {steps} steps after the warm-up epochs")
        if self.steps_per_epoch % accumulated:
            accepted = f"a divisor of training.steps_per_epoch, {self.steps_per_epoch}"
            self.refuse("gradient_accumulation_steps", accepted)
        if self.optimizer == "schedule_free_adamw" and schedule != "constant":
            accepted = "constant with training.optimizer=schedule_free_adamw"
            self.refuse("schedule.name", accepted)
        if self.optimizer == "schedule_free_adamw" and self.ema_momentum:
            accepted = "0 with training.optimizer=schedule_free_adamw, which averages the weights"
            self.refuse("ema_momentum", accepted)


@dataclass(frozen=True)
class EvaluationRecipe(Section, path="evaluation"):
    """How to evaluate the model.

    Args:
        recall_at: the K of Recall@K.
        clustering: also evaluate k-means clusters of the test embeddings (NMI, AMI, F1) and the
            mean of MAP@R over the classes, as A-grouping does; not for the ensembles of mlrc.
        batch_size: images embedded at a time.

    Example:
        >>> EvaluationRecipe(recall_at=(1, 10)).recall_at
        (1, 10)
    """

    recall_at: tuple[Count, ...] = (1, 2, 4, 8)
    clustering: bool = False
    batch_size: Size = 32


@dataclass(frozen=True)
class Recipe(Section):
    """One experiment: data, model, losses, training and evaluation.

    Args:
        name: name of the run in tables and reports.
        seed: seed of the weights, the batches and the collages of training.
        data: images and batches.
        protocol: which classes train, choose the model and test.
        backbone: network from an image to local features.
        initial_run: run folder whose best model training starts from. Its backbone, head and
            embedding must match this recipe. The loss takes its trained weights, such as proxies,
            if loss, loss_wrapper and the training classes are the same, and starts fresh otherwise.
            backbone.weights is ignored, and prototypes are not adapted.
        embedding: map to the embedding space.
        head: layer that replaces pooling and embedding; null uses these two sections.
            attentive_grouping is A-grouping; linear_grouping, gate_grouping and channel_grouping
            are its baselines; all four need loss_wrapper.name=grouped. coded_residual has two coded
            residual transforms, each with the loss. dense_branches keeps the pooling and has two
            dense layers instead of the transforms. global_local has a global head on the last map
            of the backbone and a local one on an intermediate map.
        pooling: pooling of the local features.
        loss: loss on embeddings, with its formula in gsp_tf.losses. The number of classes is filled
            in.
        miner: which pairs a loss over pairs uses; null uses all.
        loss_wrapper: loss around the loss, such as cross_batch_memory or matryoshka; grouped goes
            with the grouping heads; null is none.
        view_loss: loss of the two views of each image, besides the loss of its class, with
            data.views=2: a loss over pairs, for which the views of an image are a class, or
            barlow_twins or sim_siam. Images without a class have no other loss. null has none.
        loss_weights: weight of the loss of each branch of coded_residual or dense_branches, such as
            {first: 1.0, second: 0.1}, and weight of view_loss, {views: 0.5}; 1 for what is left
            out.
        zero_shot: zero-shot loss on attributes.
        trainer: fit; ccp for alternating proxy problems (chance constrained programming); or
            classification, which trains the backbone with global average pooling and a softmax
            classifier. Classification divides the images of every class by data.split_fractions,
            chooses the model by its accuracy, and ignores embedding, pooling and loss.
        ccp: the proxy problems of trainer=ccp.
        training: length, optimizer and precision of training.
        callbacks: trackers and Keras callbacks by name, each with its arguments, such as {wandb:
            {project: birds}, early_stopping: {monitor: loss, patience: 3}}. The files that
            csv_logger and model_checkpoint write are in the run folder; tensor_board sets options
            of its logs. wandb: null leaves out one that an earlier file names.
        evaluation: metrics.

    Example:
        >>> Recipe(name="mine", seed=1).pooling
        ClassRecipe(name='gsp', arguments={})
    """

    name: str = "run"
    seed: Seed = 0
    data: DataRecipe = field(default_factory=DataRecipe)
    protocol: ProtocolRecipe = field(default_factory=ProtocolRecipe)
    backbone: BackboneRecipe = field(default_factory=BackboneRecipe)
    initial_run: str | None = None
    embedding: EmbeddingRecipe = field(default_factory=EmbeddingRecipe)
    head: ClassRecipe | None = None
    pooling: ClassRecipe = field(default_factory=lambda: ClassRecipe("gsp"))
    loss: ClassRecipe = field(default_factory=lambda: ClassRecipe("proxy_nca"))
    miner: ClassRecipe | None = None
    loss_wrapper: ClassRecipe | None = None
    view_loss: ClassRecipe | None = None
    loss_weights: dict[str, NonNegative] = field(default_factory=dict)
    zero_shot: ZeroShotRecipe = field(default_factory=ZeroShotRecipe)
    trainer: Literal["fit", "ccp", "classification"] = "fit"
    ccp: CCPRecipe = field(default_factory=CCPRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)
    callbacks: dict[str, dict[str, Any]] = field(default_factory=dict)
    evaluation: EvaluationRecipe = field(default_factory=EvaluationRecipe)

    def check(self):
        is_name = self.name.strip() and not self.name.startswith(".")
        if not is_name or set(self.name) & set("/\\\0\n\r"):
            accepted = "the name of a folder, without a slash"
            raise ValueError(f"name must be {accepted}, received {self.name!r}.")
        if self.training.patience is not None and self.trainer == "ccp":
            accepted = "null with trainer=ccp, whose problems end by ccp.patience"
            self.refuse("training.patience", accepted)
        if self.training.optimizer == "schedule_free_adamw" and self.trainer == "ccp":
            accepted = "another with trainer=ccp, which moves weights that this one averages"
            self.refuse("training.optimizer", accepted)

    @property
    def monitor(self) -> str:
        """The validation metric that chooses the model."""
        return "val_accuracy" if self.trainer == "classification" else self.protocol.monitor


CLASS_SECTIONS = ("head", "pooling", "loss", "miner", "loss_wrapper", "view_loss")
"""The sections that name a class and give its arguments."""
