"""The sections of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gsp_tf._numbers import NonNegative, Seed, Size, SizeOrZero
from gsp_tf.recipe._backbone import BackboneRecipe
from gsp_tf.recipe._data import DataRecipe
from gsp_tf.recipe._ranges import Section
from gsp_tf.recipe._training import (
    CCPRecipe,
    EvaluationRecipe,
    TrainingRecipe,
    ZeroShotRecipe,
)


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
            bias, and is computed from at most 10,000 images.
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
        if not is_name or set(self.name) & set("/\\\0\n"):
            self.refuse("name", "the name of a folder, without a slash", repr(self.name))
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


CLASS_SECTIONS = ("head", "pooling", "loss", "miner", "loss_wrapper", "view_loss")
"""The sections that name a class and give its arguments."""
