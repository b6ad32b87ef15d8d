"""The sections of a recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from jsonargparse.typing import ClosedUnitInterval, NonNegativeInt

from gsp_tf._names import NAMES
from gsp_tf.recipe._ranges import (
    Count,
    PositiveShare,
    Section,
    Seed,
)
from gsp_tf.recipe._training import CCPRecipe, EvaluationRecipe, TrainingRecipe

DataName = Literal[tuple(NAMES["data"])]


@dataclass(frozen=True)
class CollageRecipe(Section, path="data.collage"):
    """Collages of labelled and background tiles (GSP paper, section 5.1).

    Args:
        grid: tiles along each side of an image; 0 makes no collages (those of cifar_collage are
            2 x 2), 1 leaves the labelled tile alone, of the same classes.
        background_groups: names of the super-classes (scripts, alphabets) that the background tiles
            come from; null chooses about a fifth of them by the split seed, [] a fifth of the
            classes whatever their super-class.
        label: what a collage is labelled with, the class or the super-class of its labelled tile.
            Super-classes are the same in training and test, their classes are not.

    Example:
        >>> CollageRecipe(grid=2).label
        'class'
    """

    grid: NonNegativeInt = 0
    background_groups: list[str] | None = None
    label: Literal["class", "super_class"] = "class"


@dataclass(frozen=True)
class DataRecipe(Section, path="data"):
    """Images, their split into training, validation and test classes, and the batches.

    Args:
        name: glyphs (letters rendered from fonts, no download), folder (one folder per class),
            manifest (a CSV file with the columns path, label, split), or a published set;
            docs/datasets.md says what to put where. cub200, cars196, sop and in_shop have halves of
            their own, cifar_collage its own splits.
        path: folder of the images or of the official files, or the CSV file; relative to the
            current folder. Not used for glyphs.
        download: download the official files that are missing into the folder.
        image_size: side of the square images the model sees, in pixels.
        channels: 1 for grey, 3 for colour; glyphs, omniglot and mnist are always grey, the sets of
            cifar always colour.
        split_fractions: shares of the classes for training, validation and test, which add up to 1,
            with protocol.name=fractions; a manifest with a split column brings its own.
        split_seed: seed of the split, and of which super-classes are background.
        collage: how to make collages of the images.
        classes_per_batch: P, classes in a training batch.
        images_per_class: K, images of each class in a training batch.
        horizontal_flip: mirror training images at random.
        min_crop_area: smallest area of a random crop of a training image, as a share of the area of
            its central square; 1 does not crop. The papers' sides of 40 to 256 pixels, of images
            with a shorter side of 256, are 0.0244; their programs have 0.16.
        resize: shorter side of the images in pixels before evaluation takes the central square of
            image_size; null takes the whole central square.
        cache: folder for copies of the images, reduced to a shorter side of resize, so that no
            epoch decodes the files again (about 0.3 MB per image at 256); null makes none.
        skip_unreadable: continue without image files that cannot be read.
        min_images_per_class: leave out classes with fewer images, of a folder or a manifest; an
            image that is alone in its class has nothing to retrieve.

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
        if self.collage.label != "class" and not self.collage.grid and self.name != "cifar_collage":
            collages = "data.collage.grid above 0 or data.name=cifar_collage"
            self.refuse("collage.label", f"class without {collages}", self.collage.label)
        shares = self.split_fractions
        if min(shares) <= 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
            accepted = "three positive shares (training, validation, test) that add up to 1"
            self.refuse("split_fractions", accepted)


@dataclass(frozen=True)
class ProtocolRecipe(Section, path="protocol"):
    """Which classes train, choose the model and test; docs/protocols.md says when to use which.

    Args:
        name: fractions (classes shuffled and divided by data.split_fractions, or the splits of a
            manifest or of cifar_collage), mlrc (half the classes test, a model for each fold of the
            others), or one of conventional (the model is chosen by the test classes), ablation (2/3
            of the training half train, 1/3 choose the model) and tuning (4/5 and 1/5; nothing else
            is evaluated).
        num_folds: folds of mlrc.
        repeats: models of mlrc for each fold, of different seeds; every choice of one model per
            fold is evaluated.
        fold: fold of mlrc whose classes choose the model, from 0; null trains all folds.

    Example:
        >>> ProtocolRecipe("mlrc").is_ensemble
        True
    """

    name: Literal["fractions", "mlrc", "conventional", "ablation", "tuning"] = "fractions"
    num_folds: int = 4
    repeats: Count = 1
    fold: int | None = None

    def check(self):
        if self.num_folds < 2:
            self.refuse("num_folds", "2 or more")
        if self.fold is not None and not 0 <= self.fold < self.num_folds:
            self.refuse("fold", f"null, or 0 to {self.num_folds - 1}")
        if self.fold is not None and self.name != "mlrc":
            self.refuse("fold", f"null with protocol.name={self.name}")
        if self.repeats != 1 and self.name != "mlrc":
            self.refuse("repeats", f"1 with protocol.name={self.name}")
        if self.repeats != 1 and self.fold is not None:
            self.refuse("repeats", "1 with a fold")

    @property
    def is_ensemble(self) -> bool:
        """Whether the recipe is about one model for every fold and repeat."""
        return self.name == "mlrc" and self.fold is None

    @property
    def monitor(self) -> str:
        """The validation metric that chooses the model."""
        return "val_recall_at_1" if self.name == "conventional" else "val_map_at_r"


@dataclass(frozen=True)
class BackboneRecipe(Section, path="backbone"):
    """The network from an image to its local features.

    Args:
        name: registered name, such as conv4, resnet20, bn_inception, googlenet or resnet50.
        weights: weights to start from: the path of a .weights.h5 file, such as gsp-tf
            convert-weights writes, or the name of weights that are downloaded, imagenet for the
            networks of keras.applications; null is random ones.
        freeze_batch_normalization: whether batch normalisation keeps the statistics, scales and
            offsets that it starts with.

    Example:
        >>> BackboneRecipe("resnet50", weights="imagenet").name
        'resnet50'
    """

    name: str = "resnet20"
    weights: str | None = None
    freeze_batch_normalization: bool = False


@dataclass(frozen=True)
class EmbeddingRecipe(Section, path="embedding"):
    """The linear map to the embedding space, and its position.

    Args:
        dim: D, dimension of the embedding: of all groups together, of the first branch of
            coded_residual and dense_branches, of both heads of global_local together.
        position: before_pooling maps every local feature (a 1x1 convolution), so that pooling
            weights depend on mapped features; after_pooling maps the pooled one.
        second_dim: dimension of the second branch's embedding; null is 1024 with the heads
            coded_residual and dense_branches, which have one.

    Example:
        >>> EmbeddingRecipe(128).position
        'before_pooling'
    """

    dim: Count = 64
    position: Literal["before_pooling", "after_pooling"] = "before_pooling"
    second_dim: Count | None = None


@dataclass(frozen=True)
class ClassRecipe:
    """A class by its name; in a file `{name: gsp, num_prototypes: 64, ...}`.

    Args:
        name: its name in the section.
        arguments: arguments of the class; those left out have the defaults of the class.

    Example:
        >>> ClassRecipe("gsp", {"num_prototypes": 32}).arguments
        {'num_prototypes': 32}
    """

    name: str
    arguments: dict[str, bool | int | float | str | list | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ZeroShotRecipe(Section, path="zero_shot"):
    """The zero-shot prediction loss on the attributes of gsp.

    Args:
        weight: λ, its share in the total loss; 0 leaves it out.
        embedding_dim: dimension of the class embeddings.
        ridge: penalty of the regression from attributes to class embeddings.
        scale: factor of the logits; the GSP paper has 1, its authors' program 9.5.
        reduction: mean over the batch, as in the authors' program, or sum_of_means, the sum of the
            means over the two halves of the classes, as in the GSP paper, eq. 4.4.

    Example:
        >>> ZeroShotRecipe(0.1).reduction
        'mean'
    """

    weight: ClosedUnitInterval = 0.0
    embedding_dim: int = 64
    ridge: float = 0.05
    scale: float = 9.5
    reduction: Literal["mean", "sum_of_means"] = "mean"


@dataclass(frozen=True)
class Recipe(Section):
    """One experiment: data, model, losses, training and evaluation.

    Args:
        name: name of the run in tables and reports.
        seed: seed of the weights, the batches and the collages of training.
        data: images and batches.
        protocol: which classes train, choose the model and test.
        backbone: network from an image to local features.
        initial_run: run folder whose best model training starts from: its backbone, head and
            embedding, which must be those of this recipe; losses start fresh, because the classes
            may be others. backbone.weights is then not read, and prototypes are not adapted.
        embedding: map to the embedding space.
        head: what takes the place of pooling and embedding: attentive_grouping, linear_grouping,
            gate_grouping or channel_grouping (A-grouping and what it is compared with, with
            loss_wrapper.name=grouped), coded_residual (two coded residual transforms, each with the
            loss), dense_branches (two dense layers on what the pooling gives, in place of these
            transforms), or global_local (a global head on the last map of the backbone and a local
            one on an intermediate map); null is pooling and embedding as their sections say.
        pooling: pooling of the local features; docs/poolings.md lists them.
        loss: loss on embeddings; docs/losses.md lists them with their formulas. The number of
            classes is filled in.
        miner: which pairs a loss over pairs takes; null takes all.
        loss_wrapper: what the loss is put into: cross_batch_memory or
            multi_level_distance_regularization for a loss over pairs, proxy_synthesis or
            virtual_class for one with proxies, grouped for any loss on the groups of a grouping;
            null is nothing.
        loss_weights: weights of the loss on the embeddings of each branch of coded_residual or
            dense_branches, such as {first: 1.0, second: 0.1}; 1 for those left out.
        zero_shot: zero-shot loss on attributes.
        trainer: fit, or ccp for alternating proxy problems (chance constrained programming).
        ccp: the proxy problems of trainer=ccp.
        training: length and steps of training.
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
    loss_weights: dict[str, float] = field(default_factory=dict)
    zero_shot: ZeroShotRecipe = field(default_factory=ZeroShotRecipe)
    trainer: Literal["fit", "ccp"] = "fit"
    ccp: CCPRecipe = field(default_factory=CCPRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)
    evaluation: EvaluationRecipe = field(default_factory=EvaluationRecipe)

    def check(self):
        is_name = self.name.strip() and not self.name.startswith(".")
        if not is_name or set(self.name) & set("/\\\0\n"):
            self.refuse("name", "the name of a folder, without a slash", repr(self.name))
        for branch, weight in self.loss_weights.items():
            if not 0 <= weight < math.inf:
                self.refuse(f"loss_weights.{branch}", "a number of 0 or more and finite", weight)
        if self.training.patience is not None and self.trainer == "ccp":
            accepted = "null with trainer=ccp, whose problems end by ccp.patience"
            self.refuse("training.patience", accepted, self.training.patience)


CLASS_SECTIONS = ("head", "pooling", "loss", "miner", "loss_wrapper")
"""The sections that name a class and give its arguments."""
