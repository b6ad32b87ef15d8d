"""The sections of a recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from jsonargparse.typing import NonNegativeInt

from gsp_tf.recipe._backbone import BackboneRecipe
from gsp_tf.recipe._clutter import CanvasRecipe, CollageRecipe, DataName
from gsp_tf.recipe._ranges import (
    Count,
    PositiveShare,
    Section,
    Seed,
)
from gsp_tf.recipe._training import (
    CCPRecipe,
    EvaluationRecipe,
    TrainingRecipe,
    ZeroShotRecipe,
)


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
            protocol.name=fractions, or of the images of each class with trainer=classification;
            they add up to 1. A split column of a manifest replaces them.
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
        feature_cache: folder for the features that the frozen part of the network
            (backbone.frozen_to) gives for each image, in float16. They are computed once; training
            and validation run from them, without the images. The view is the fixed central square,
            mirrored with horizontal_flip, so min_crop_area must be 1. null trains from the images.
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
        if self.feature_cache is not None and (self.collage.grid or self.name == "cifar_collage"):
            accepted = "null with collages, which training draws again for each batch"
            self.refuse("feature_cache", accepted)
        if self.collage.label != "class" and not self.collage.grid and self.name != "cifar_collage":
            collages = "data.collage.grid above 0 or data.name=cifar_collage"
            self.refuse("collage.label", f"class without {collages}", self.collage.label)
        shares = self.split_fractions
        if min(shares) <= 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
            accepted = "three positive shares (training, validation, test) that add up to 1"
            self.refuse("split_fractions", accepted)


@dataclass(frozen=True)
class ProtocolRecipe(Section, path="protocol"):
    """Which classes train, choose the model and test; docs/protocols.md says when to use each.

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
        """Whether the recipe trains one model for every fold and repeat."""
        return self.name == "mlrc" and self.fold is None

    @property
    def monitor(self) -> str:
        """The validation metric that chooses the model."""
        return "val_recall_at_1" if self.name == "conventional" else "val_map_at_r"


@dataclass(frozen=True)
class EmbeddingRecipe(Section, path="embedding"):
    """The linear map to the embedding space, and its position.

    Args:
        dim: D, dimension of the embedding: of all groups together, of both heads of global_local
            together, or of the first branch of coded_residual and dense_branches.
        position: before_pooling maps every local feature (a 1x1 convolution), so that pooling
            weights depend on mapped features; after_pooling maps the pooled feature.
        second_dim: dimension of the embedding of the second branch, with the heads coded_residual
            and dense_branches only; null is 1024.

    Example:
        >>> EmbeddingRecipe(128).position
        'before_pooling'
    """

    dim: Count = 64
    position: Literal["before_pooling", "after_pooling"] = "before_pooling"
    second_dim: Count | None = None


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


def _with_tuples(value):
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value


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
            embedding must match this recipe. Losses start fresh, because the classes may differ.
            backbone.weights is ignored, and prototypes are not adapted.
        embedding: map to the embedding space.
        head: layer that replaces pooling and embedding; null uses these two sections.
            attentive_grouping is A-grouping; linear_grouping, gate_grouping and channel_grouping
            are its baselines; all four need loss_wrapper.name=grouped. coded_residual has two coded
            residual transforms, each with the loss. dense_branches keeps the pooling and has two
            dense layers instead of the transforms. global_local has a global head on the last map
            of the backbone and a local one on an intermediate map.
        pooling: pooling of the local features; docs/poolings.md lists them.
        loss: loss on embeddings; docs/losses.md has formulas. The number of classes is filled in.
        miner: which pairs a loss over pairs uses; null uses all.
        loss_wrapper: loss around the loss, such as cross_batch_memory or matryoshka; docs/losses.md
            lists them; grouped goes with the grouping heads; null is none.
        loss_weights: weight of the loss of each branch of coded_residual or dense_branches, such as
            {first: 1.0, second: 0.1}; 1 for a branch that is left out.
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
    loss_weights: dict[str, float] = field(default_factory=dict)
    zero_shot: ZeroShotRecipe = field(default_factory=ZeroShotRecipe)
    trainer: Literal["fit", "ccp", "classification"] = "fit"
    ccp: CCPRecipe = field(default_factory=CCPRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)
    callbacks: dict[str, dict[str, Any]] = field(default_factory=dict)
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
        if self.training.optimizer == "schedule_free_adamw" and self.trainer == "ccp":
            accepted = "another with trainer=ccp, which moves weights that this one averages"
            self.refuse("training.optimizer", accepted, self.training.optimizer)

    @property
    def monitor(self) -> str:
        """The validation metric that chooses the model."""
        return "val_accuracy" if self.trainer == "classification" else self.protocol.monitor


CLASS_SECTIONS = ("head", "pooling", "loss", "miner", "loss_wrapper")
"""The sections that name a class and give its arguments."""
