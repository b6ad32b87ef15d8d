"""The typed description of one experiment, and its form on disk (YAML)."""

from __future__ import annotations

import difflib
import math
import os
from argparse import ArgumentError
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Literal, get_args, get_type_hints

from jsonargparse import ActionConfigFile, ArgumentParser
from yaml import YAMLError

from gsp_tf._files import replace_text
from gsp_tf._recipe_values import MAX_CHARACTERS, VALUES, load_values
from gsp_tf._refusals import described, readable


@dataclass
class CollageRecipe:
    """Collages of labelled and background tiles (GSP paper, section 5.1).

    Args:
        grid: tiles along each side of an image; 0 makes no collages (those of cifar_collage are
            2 x 2), 1 leaves the labelled tile alone, of the same classes.
        background_groups: names of the super-classes (scripts, alphabets) that the background tiles
            come from; null chooses about a fifth of them by the split seed, [] a fifth of the
            classes whatever their super-class.
        label: what a collage is labelled with, the class or the super-class of its labelled tile.
            Super-classes are the same in training and test, their classes are not.
    """

    grid: int = 0
    background_groups: list[str] | None = None
    label: Literal["class", "super_class"] = "class"

    def __post_init__(self):
        _check("data.collage.grid", self.grid, self.grid >= 0, "0 or more")


DataName = Literal[
    "glyphs",
    "folder",
    "manifest",
    "cars196",
    "cifar10",
    "cifar100",
    "cifar_collage",
    "cub200",
    "in_shop",
    "mnist",
    "omniglot",
    "sop",
]


FILE_SETS = ("folder", "manifest", "cars196", "cub200", "in_shop", "sop")


@dataclass
class DataRecipe:
    """Images, their split into training, validation and test classes, and the batches.

    Args:
        name: glyphs (letters rendered from fonts, no download), folder (one folder a class),
            manifest (a CSV file with the columns path, label, split), or a published set, of which
            docs/datasets.md says what to put where; cub200, cars196, sop and in_shop have halves of
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
            its central square; 1 does not crop. Sides of 40 to 256 pixels where the shorter side of
            the image has 256, as the papers say, are 0.0244; their programs have 0.16.
        resize: shorter side, in pixels, of the images of which evaluation takes the central square
            of image_size; null takes the whole central square.
        cache: folder for copies of the images, reduced to a shorter side of resize, so that no
            epoch decodes the files again (about 0.3 MB an image at 256); null makes none.
        skip_unreadable: continue without image files that cannot be read.
        min_images_per_class: leave out classes with fewer images, of a folder or a manifest; an
            image that is alone in its class has nothing to retrieve.
    """

    name: DataName = "glyphs"
    path: str | None = None
    download: bool = False
    image_size: int = 48
    channels: Literal[1, 3] = 3
    split_fractions: tuple[float, float, float] = (0.5, 0.1, 0.4)
    split_seed: int = 0
    collage: CollageRecipe = field(default_factory=CollageRecipe)
    classes_per_batch: int = 16
    images_per_class: int = 4
    horizontal_flip: bool = False
    min_crop_area: float = 1.0
    resize: int | None = None
    cache: str | None = None
    skip_unreadable: bool = False
    min_images_per_class: int = 2

    def __post_init__(self):
        counts = "image_size", "classes_per_batch", "images_per_class", "min_images_per_class"
        for name in counts:
            value = getattr(self, name)
            _check(f"data.{name}", value, value >= 1, "1 or more")
        by_hand = self.name in ("glyphs", "folder", "manifest", "in_shop")
        _check(
            "data.download",
            self.download,
            not (self.download and by_hand),
            f"false with data.name={self.name}",
        )
        crop = self.min_crop_area
        _check("data.min_crop_area", crop, 0 < crop <= 1, "above 0 and at most 1")
        resize = self.resize
        _check(
            "data.resize",
            resize,
            resize is None or resize >= self.image_size,
            f"null, or data.image_size, {self.image_size}, or more",
        )
        label, of_collages = self.collage.label, self.collage.grid or self.name == "cifar_collage"
        _check(
            "data.collage.label",
            label,
            label == "class" or of_collages,
            "class without collages (data.collage.grid above 0 or data.name=cifar_collage)",
        )
        of_files = self.name in FILE_SETS
        _check(
            "data.cache",
            self.cache,
            self.cache is None or of_files,
            f"null with data.name={self.name}, whose images are in memory",
        )
        shares = self.split_fractions
        _check(
            "data.split_fractions",
            shares,
            min(shares) > 0 and math.isclose(sum(shares), 1, abs_tol=1e-6),
            "three positive shares (training, validation, test) that add up to 1",
        )
        _check("data.split_seed", self.split_seed, self.split_seed >= 0, "0 or more")


@dataclass
class ProtocolRecipe:
    """Which classes train, choose the model and test; docs/protocols.md says when to use which.

    Args:
        name: fractions (classes shuffled and divided by data.split_fractions, or the splits of a
            manifest or of cifar_collage), mlrc (half the classes test, a model for each fold of the
            others), or one of conventional (the model is chosen by the test classes), ablation (2/3
            of the training half train, 1/3 choose the model) and tuning (4/5 and 1/5; nothing else
            is evaluated).
        num_folds: folds of mlrc.
        repeats: models of mlrc for each fold, of different seeds; every choice of one model a fold
            is evaluated.
        fold: fold of mlrc whose classes choose the model, from 0; null trains all folds.
    """

    name: Literal["fractions", "mlrc", "conventional", "ablation", "tuning"] = "fractions"
    num_folds: int = 4
    repeats: int = 1
    fold: int | None = None

    def __post_init__(self):
        _check("protocol.num_folds", self.num_folds, self.num_folds >= 2, "2 or more")
        _check("protocol.repeats", self.repeats, self.repeats >= 1, "1 or more")
        fold = self.fold
        _check(
            "protocol.fold",
            fold,
            fold is None or 0 <= fold < self.num_folds,
            f"null, or 0 to {self.num_folds - 1}",
        )
        for name, default in (("fold", None), ("repeats", 1)):
            value = getattr(self, name)
            _check(
                f"protocol.{name}",
                value,
                value == default or self.name == "mlrc",
                f"{'null' if default is None else default} with protocol.name={self.name}",
            )
        _check("protocol.repeats", self.repeats, fold is None or self.repeats == 1, "1 with a fold")

    @property
    def is_ensemble(self):
        """Whether this is about one model for every fold and repeat."""
        return self.name == "mlrc" and self.fold is None

    @property
    def monitor(self):
        """The validation metric that chooses the model."""
        return "val_recall_at_1" if self.name == "conventional" else "val_map_at_r"


@dataclass
class BackboneRecipe:
    """The network from an image to its local features.

    Args:
        name: registered name, such as conv4, resnet20, bn_inception, googlenet or resnet50.
        weights: weights to start from: the path of a .weights.h5 file, such as gsp-tf
            convert-weights writes, or the name of weights that are downloaded, imagenet for the
            networks of keras.applications; null is random ones.
        freeze_batch_normalization: whether batch normalisation keeps the statistics, scales and
            offsets that it starts with.
    """

    name: str = "resnet20"
    weights: str | None = None
    freeze_batch_normalization: bool = False


@dataclass
class EmbeddingRecipe:
    """The linear map to the embedding space, and where it stands.

    Args:
        dim: D, dimension of the embedding.
        position: before_pooling maps every local feature (a 1x1 convolution), so that pooling
            weights depend on mapped features; after_pooling maps the pooled one.
    """

    dim: int = 64
    position: Literal["before_pooling", "after_pooling"] = "before_pooling"

    def __post_init__(self):
        _check("embedding.dim", self.dim, self.dim >= 1, "1 or more")


Arguments = dict[str, bool | int | float | str | list[int] | list[float] | None]
PoolingName = Literal[
    "average_max",
    "cbam",
    "crow",
    "delf",
    "gap",
    "generalized_max",
    "generalized_mean",
    "gsop",
    "gsp",
    "gsp_max",
    "gsp_mean",
    "max",
    "net_vlad",
    "optimal_transport",
    "smk",
    "solar",
    "weldon",
]


@dataclass
class PoolingRecipe:
    """The pooling of local features, with head.name=pooling.

    Args:
        name: gap (global average pooling), gsp (generalized sum pooling), or another one;
            docs/poolings.md lists them. gsp_max and gsp_mean are gsp with the maximum and within
            the generalised mean.
        arguments: arguments of the class of another pooling, such as {p: 4.0} of
            generalized_mean; those left out have the defaults of the class.
        num_prototypes: m of gsp.
        transport_ratio: μ of gsp, share of the local features to keep, in (0, 1].
        entropy_smoothing: ε of gsp, larger chooses more sharply; the GSP paper has 0.5 with losses
            of proxies and 5 with others.
        solver: solver of gsp, newton or fixed_point.
        adapt_batches: training batches from whose local features gsp, net_vlad and
            optimal_transport take their prototypes at the start; 0 keeps random ones.
    """

    name: PoolingName = "gsp"
    arguments: Arguments = field(default_factory=dict)
    num_prototypes: int = 64
    transport_ratio: float = 0.3
    entropy_smoothing: float = 5.0
    solver: Literal["newton", "fixed_point"] = "newton"
    adapt_batches: int = 0

    def __post_init__(self):
        _check("pooling.adapt_batches", self.adapt_batches, self.adapt_batches >= 0, "0 or more")


BRANCHED = ("coded_residual", "dense_branches")
BRANCHES = ("first", "second")


@dataclass
class HeadRecipe:
    """What stands between the backbone and the embedding.

    Args:
        name: pooling (embedding and pooling as their sections say); attentive_grouping,
            linear_grouping, gate_grouping or channel_grouping (A-grouping and what it is compared
            with, for loss.wrapper=grouped); coded_residual (two coded residual transforms, each
            with the loss); dense_branches (two dense layers on what the pooling section says, in
            place of these transforms); or global_local (a global head on the last map of the
            backbone and a local one on an intermediate map). embedding.dim is the size of all
            groups together, of the first branch, or of both heads together.
        arguments: arguments of the layer's class, such as {num_groups: 3, key_dim: 128}; those
            left out have the defaults of the class. coded_residual takes num_prototypes: [K1, K2],
            second_dim (size of the second branch's embedding), hidden_dim, and the weights of
            diversity and consistency; loss.weights has those of the loss on each branch.
    """

    name: Literal[
        "pooling",
        "attentive_grouping",
        "channel_grouping",
        "coded_residual",
        "dense_branches",
        "gate_grouping",
        "global_local",
        "linear_grouping",
    ] = "pooling"
    arguments: Arguments = field(default_factory=dict)

    def __post_init__(self):
        given = self.arguments
        _check(
            "head.arguments",
            given,
            self.name != "pooling" or not given,
            "empty with head.name=pooling, which has pooling.arguments",
        )


LossName = Literal[
    "angular",
    "arc_face",
    "binomial_deviance",
    "circle",
    "class_margin",
    "contrastive",
    "cos_face",
    "cosine_contrastive",
    "fast_ap",
    "hybrid",
    "lifted_structure",
    "margin",
    "multi_similarity",
    "n_pairs",
    "normalized_softmax",
    "proxy_anchor",
    "proxy_nca",
    "soft_triple",
    "supervised_contrastive",
    "triplet",
    "triplet_hard",
    "triplet_semi_hard",
]
MinerName = Literal[
    "none", "distance_weighted", "hard_negative", "multi_similarity", "semi_hard_negative"
]
WrapperName = Literal[
    "none",
    "cross_batch_memory",
    "grouped",
    "multi_level_distance_regularization",
    "proxy_synthesis",
    "virtual_class",
]


@dataclass
class LossRecipe:
    """The loss on embeddings.

    Args:
        name: the loss; docs/losses.md lists them with their formulas.
        arguments: arguments of its class, such as {temperature: 0.05}; those left out have the
            defaults of the class. The number of classes is filled in.
        miner: which pairs a loss over pairs takes; none takes all.
        miner_arguments: arguments of the miner's class.
        wrapper: what the loss is put into: cross_batch_memory or
            multi_level_distance_regularization for a loss over pairs, proxy_synthesis or
            virtual_class for one with proxies, grouped for any loss on the groups of a grouping.
        wrapper_arguments: arguments of the wrapper's class, such as {capacity: 8192}.
        weights: weights of the loss on the embeddings of each branch of head.name=coded_residual or
            dense_branches, such as {first: 1.0, second: 0.1}; 1 for those left out.
    """

    name: LossName = "proxy_nca"
    arguments: Arguments = field(default_factory=dict)
    miner: MinerName = "none"
    miner_arguments: Arguments = field(default_factory=dict)
    wrapper: WrapperName = "none"
    wrapper_arguments: Arguments = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self):
        for name, weight in self.weights.items():
            _check(f"loss.weights.{name}", weight, 0 <= weight < math.inf, "0 or more")


@dataclass
class ZeroShotRecipe:
    """The zero-shot prediction loss on the attributes of gsp.

    Args:
        weight: λ, its share in the total loss, 0 to 1; 0 leaves it out.
        embedding_dim: dimension of the class embeddings.
        ridge: penalty of the regression from attributes to class embeddings.
        scale: factor of the logits; the GSP paper has 1, its authors' program 9.5.
        reduction: mean over the batch, as in the authors' program, or sum_of_means, the sum of the
            means over the two halves of the classes, as in the GSP paper, eq. 4.4.
    """

    weight: float = 0.0
    embedding_dim: int = 64
    ridge: float = 0.05
    scale: float = 9.5
    reduction: Literal["mean", "sum_of_means"] = "mean"

    def __post_init__(self):
        _check("zero_shot.weight", self.weight, 0 <= self.weight <= 1, "between 0 and 1")


@dataclass
class CCPRecipe:
    """Training by alternating proxy problems, with trainer=ccp and a loss over pairs.

    Args:
        proxies_per_class: k, proxies of each class.
        pool_size: b, images of each class that the proxies of a problem are chosen from; at most k
            makes the choice random.
        projection_weight: λ, weight of half the squared distance from the last solution.
        patience: epochs without a better validation MAP@R after which a problem ends.
        batch_weight: weight of the same loss within the batch; 0 is the thesis' equation.
        max_projections: problems at most; 1 is training with proxies that stand for the classes;
            null for no limit.
    """

    proxies_per_class: int = 8
    pool_size: int = 12
    projection_weight: float = 2e-4
    patience: int = 3
    batch_weight: float = 0.1
    max_projections: int | None = None

    def __post_init__(self):
        for name in ("proxies_per_class", "pool_size", "patience"):
            value = getattr(self, name)
            _check(f"ccp.{name}", value, value >= 1, "1 or more")
        for name in ("projection_weight", "batch_weight"):
            value = getattr(self, name)
            _check(f"ccp.{name}", value, 0 <= value < math.inf, "0 or more and finite")
        limit = self.max_projections
        _check("ccp.max_projections", limit, limit is None or limit >= 1, "null, or 1 or more")


@dataclass
class ScheduleRecipe:
    """How the learning rate goes after the warm-up.

    Args:
        name: constant, step (times decay_factor every decay_epochs epochs), cosine (half a cosine,
            step by step, down to minimum at the end of training) or plateau (times decay_factor
            when the metric that chooses the model has not risen for patience epochs). The defaults
            of plateau are those of the authors' program of CCP. Their thesis has a constant rate in
            the fair evaluation, plateau with a patience of 4 in the conventional one (sections
            3.3.2.1 and 5.3.4.1), and factor 0.5 and patience 5 on Cifar Collage (section 5.3.2).
        decay_factor: what step and plateau multiply the rate by, above 0 and below 1.
        decay_epochs: epochs between the steps of step.
        patience: epochs that plateau waits.
        min_delta: rise of that metric, which lies in 0 to 1, that is too small for plateau to
            count.
        cooldown: epochs after a reduction in which plateau does not count.
        minimum: rate at which cosine ends and below which plateau does not go; null is 0 for cosine
            and 1e-6 for plateau.
    """

    name: Literal["constant", "step", "cosine", "plateau"] = "constant"
    decay_factor: float = 0.5
    decay_epochs: int = 10
    patience: int = 5
    min_delta: float = 1e-3
    cooldown: int = 2
    minimum: float | None = None

    def __post_init__(self):
        factor, minimum = self.decay_factor, self.minimum
        _check("training.schedule.decay_factor", factor, 0 < factor < 1, "above 0 and below 1")
        for name in ("decay_epochs", "patience"):
            value = getattr(self, name)
            _check(f"training.schedule.{name}", value, value >= 1, "1 or more")
        for name in ("min_delta", "cooldown"):
            value = getattr(self, name)
            _check(f"training.schedule.{name}", value, 0 <= value < math.inf, "0 or more")
        _check(
            "training.schedule.minimum",
            minimum,
            minimum is None or 0 <= minimum < math.inf,
            "null, or 0 or more",
        )


@dataclass
class TrainingRecipe:
    """How long and with what steps to train.

    Args:
        epochs: number of epochs, those of the warm-up included; the model is evaluated on the
            validation classes after each.
        steps_per_epoch: batches in an epoch.
        optimizer: adam, adamw (adam with a weight_decay above 0) or sgd (with momentum 0.9).
        beta_2: share of the old mean of squared gradients that a step of adam or adamw keeps. The
            thesis of Gürbüz prints default moment parameters and .99; the default is .999, which
            the authors' program has, and so do the recipes.
        learning_rate: step size, at the start if there is a schedule. GSP and CCP train pretrained
            backbones with adam and 1e-5 in the fair evaluation (thesis, sections 3.3.2.1, 5.3.4.1).
        learning_rate_multipliers: factors of the learning rate by regular expression; a weight
            takes that of the first one found in its path, and 1 without any. {proxies: 100} trains
            the proxies a hundred times as fast; 0 holds weights still.
        schedule: how the learning rate goes.
        warmup_epochs: first epochs, in which the backbone stays as it is, its batch normalisation
            in inference mode, and the rest trains; then the optimizer starts again. The thesis
            warms up for 1 epoch with ProxyAnchor, ProxyNCA++ and SoftTriple, and not with pair
            losses, nor with CCP (sections 3.3.2.1, 5.3.4.1).
        warmup_learning_rate_multiplier: factor of the learning rate in the warm-up, where it is
            constant.
        weight_decay: decoupled weight decay: a step takes off the share learning_rate *
            weight_decay of each weight; 0 is none.
        l2_regularization: this times the weights is added to the gradients, before clipping and
            before the optimizer's own scaling; 0 is none. It is what the thesis calls weight decay,
            1e-4, as the authors' program takes it; decoupled, at their learning rate, that would
            be too small for float32.
        weight_decay_exclusions: regular expressions; a weight in whose path one is found is left
            out of both. ["batch_normalization", "bias"] is common.
        clip_norm: norm to which all gradients together are scaled down if theirs is larger; null
            does not clip. The authors' programs of GSP and CCP clip at 10; their papers do not say.
        precision: Keras dtype policy of the embedder.
        jit_compile: compile the training step with XLA.
        patience: epochs without a better value of the metric that chooses the model after which
            training ends, counted from the end of the warm-up; null never.
        deterministic: use operations that give the same numbers each time, on the same machine;
            slower on a GPU.
    """

    epochs: int = 10
    steps_per_epoch: int = 100
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    beta_2: float = 0.999
    learning_rate: float = 1e-3
    learning_rate_multipliers: dict[str, float] = field(default_factory=dict)
    schedule: ScheduleRecipe = field(default_factory=ScheduleRecipe)
    warmup_epochs: int = 0
    warmup_learning_rate_multiplier: float = 1.0
    weight_decay: float = 0.0
    l2_regularization: float = 0.0
    weight_decay_exclusions: list[str] = field(default_factory=list)
    clip_norm: float | None = None
    precision: Literal["float32", "mixed_float16", "mixed_bfloat16"] = "float32"
    jit_compile: bool = False
    patience: int | None = None
    deterministic: bool = False

    def __post_init__(self):
        for name in ("epochs", "steps_per_epoch"):
            value = getattr(self, name)
            _check(f"training.{name}", value, value >= 1, "1 or more")
        for name in ("learning_rate", "warmup_learning_rate_multiplier"):
            value = getattr(self, name)
            _check(f"training.{name}", value, 0 < value < math.inf, "positive and finite")
        _check("training.beta_2", self.beta_2, 0 <= self.beta_2 < 1, "0 or more and below 1")
        _check(
            "training.beta_2",
            self.beta_2,
            self.beta_2 == 0.999 or self.optimizer != "sgd",
            "0.999, its default, with training.optimizer=sgd, which has none",
        )
        for pattern, factor in self.learning_rate_multipliers.items():
            name = f"training.learning_rate_multipliers[{pattern}]"
            _check(name, factor, 0 <= factor < math.inf, "0 or more and finite")
        minimum = self.schedule.minimum
        _check(
            "training.schedule.minimum",
            minimum,
            minimum is None or minimum <= self.learning_rate,
            f"at most training.learning_rate, {self.learning_rate}",
        )
        warmup = self.warmup_epochs
        _check(
            "training.warmup_epochs",
            warmup,
            0 <= warmup < self.epochs,
            f"0 or more and below training.epochs, {self.epochs}",
        )
        for name in ("weight_decay", "l2_regularization"):
            value = getattr(self, name)
            _check(f"training.{name}", value, 0 <= value < math.inf, "0 or more and finite")
        decay = self.weight_decay
        _check(
            "training.weight_decay",
            decay,
            decay > 0 or self.optimizer != "adamw",
            "above 0 with training.optimizer=adamw; adam goes without",
        )
        _check(
            "training.weight_decay_exclusions",
            self.weight_decay_exclusions,
            decay + self.l2_regularization > 0 or not self.weight_decay_exclusions,
            "empty without a training.weight_decay or training.l2_regularization",
        )
        norm, patience = self.clip_norm, self.patience
        _check(
            "training.clip_norm",
            norm,
            norm is None or 0 < norm < math.inf,
            "null, or positive and finite",
        )
        _check(
            "training.patience", patience, patience is None or patience >= 1, "null, or 1 or more"
        )


@dataclass
class EvaluationRecipe:
    """How to evaluate.

    Args:
        recall_at: the K of Recall@K.
        clustering: evaluate k-means clusters of the test embeddings (NMI, AMI, F1) and the mean of
            the classes' MAP@R too, as A-grouping does; of single models, not of the ensembles of
            mlrc.
        batch_size: images embedded at a time.
    """

    recall_at: tuple[int, ...] = (1, 2, 4, 8)
    clustering: bool = False
    batch_size: int = 128

    def __post_init__(self):
        depths = self.recall_at
        _check("evaluation.recall_at", depths, all(k >= 1 for k in depths), "integers of 1 or more")
        _check("evaluation.batch_size", self.batch_size, self.batch_size >= 1, "1 or more")


@dataclass
class Recipe:
    """One experiment: data, model, losses, training and evaluation.

    Args:
        name: name of the run in tables and reports.
        seed: seed of the weights, the batches and the collages of training.
        data: images and batches.
        protocol: which classes train, choose the model and test.
        backbone: network from an image to local features.
        initial_run: run folder whose best model training starts from: its backbone, head and
            embedding, which must be those of this recipe; losses start fresh, for classes may be
            others. backbone.weights is then not read, and prototypes are not adapted.
        embedding: map to the embedding space.
        head: what stands between backbone and embedding.
        pooling: pooling of the local features.
        loss: loss on embeddings.
        zero_shot: zero-shot loss on attributes.
        trainer: fit, or ccp for alternating proxy problems (chance constrained programming).
        ccp: the proxy problems of trainer=ccp.
        training: length and steps of training.
        evaluation: metrics.
    """

    name: str = "run"
    seed: int = 0
    data: DataRecipe = field(default_factory=DataRecipe)
    protocol: ProtocolRecipe = field(default_factory=ProtocolRecipe)
    backbone: BackboneRecipe = field(default_factory=BackboneRecipe)
    initial_run: str | None = None
    embedding: EmbeddingRecipe = field(default_factory=EmbeddingRecipe)
    head: HeadRecipe = field(default_factory=HeadRecipe)
    pooling: PoolingRecipe = field(default_factory=PoolingRecipe)
    loss: LossRecipe = field(default_factory=LossRecipe)
    zero_shot: ZeroShotRecipe = field(default_factory=ZeroShotRecipe)
    trainer: Literal["fit", "ccp"] = "fit"
    ccp: CCPRecipe = field(default_factory=CCPRecipe)
    training: TrainingRecipe = field(default_factory=TrainingRecipe)
    evaluation: EvaluationRecipe = field(default_factory=EvaluationRecipe)

    def __post_init__(self):
        _check("seed", self.seed, 0 <= self.seed < 2**32, "0 to 2^32 - 1")
        is_name = self.name.strip() and not self.name.startswith(".")
        is_name = is_name and not set(self.name) & set("/\\\0\n")
        _check("name", repr(self.name), is_name, "the name of a folder, without a slash")
        _check(
            "training.patience",
            self.training.patience,
            self.training.patience is None or self.trainer == "fit",
            "null with trainer=ccp, whose problems end by ccp.patience",
        )
        accepted = BRANCHES if self.head.name in BRANCHED else ()
        _check(
            "loss.weights",
            self.loss.weights,
            set(self.loss.weights) <= set(accepted),
            f"of {' and '.join(accepted) or 'none'} with head.name={self.head.name}",
        )


def _check(name, value, is_accepted, accepted):
    if not is_accepted:
        raise ValueError(f"{name} must be {accepted}, received {value}.")


def add_recipe_arguments(parser, files=()):
    """Give a parser `--config` and one option for every field of a recipe.

    Args:
        parser: `jsonargparse.ArgumentParser`.
        files: recipe files that it will be given, by which several of them are named where they do
            not name themselves: `composed_name`.

    Example:
        >>> parser = ArgumentParser(exit_on_error=False)
        >>> add_recipe_arguments(parser)
        >>> parser.parse_args(["--pooling.transport_ratio", "0.2"]).pooling.transport_ratio
        0.2
    """
    parser.parser_mode = VALUES
    parser.add_argument(
        "--config",
        action=_RecipeFile,
        help="Recipe (YAML) to start from; of several, later ones win field by field.",
    )
    parser.add_class_arguments(Recipe)
    if len(files) > 1:
        parser.set_defaults(name=composed_name(files))


def composed_name(files):
    """What a recipe of several files is called: as all of them but the first, the data set's.

    Args:
        files: their paths.

    Returns:
        str.

    Example:
        >>> composed_name(["benchmarks/cub200.yaml", "methods/c2.yaml", "methods/gsp.yaml"])
        'c2-gsp'
    """
    return "-".join(Path(file).stem for file in files[1:])


def parsed_recipe(parser, namespace):
    """The recipe in what a parser with `add_recipe_arguments` parsed.

    Args:
        parser: that parser.
        namespace: what its `parse_args` returned.

    Returns:
        `Recipe`.

    Raises:
        ValueError: if a value is not accepted.

    Example:
        >>> parser = ArgumentParser(exit_on_error=False)
        >>> add_recipe_arguments(parser)
        >>> parsed_recipe(parser, parser.parse_args(["--seed", "3"])).seed
        3
    """
    _refuse_null(Recipe, namespace)
    values = vars(parser.instantiate(namespace))
    return Recipe(**{field.name: values[field.name] for field in fields(Recipe)})


def _refuse_null(section, values, prefix=""):
    """Refuse null in a field whose type does not have it; jsonargparse takes it everywhere."""
    types = get_type_hints(section)
    for part in fields(section):
        name, value = prefix + part.name, values[part.name]
        if value is None and NoneType not in get_args(types[part.name]):
            raise ValueError(f"{name} must be {described(types[part.name])}, received null.")
        if is_dataclass(part.default_factory):
            _refuse_null(part.default_factory, value, f"{name}.")


class _RecipeFile(ActionConfigFile):
    """Reads a recipe file whose sections are mappings."""

    def __call__(self, parser, cfg, values, option_string=None):
        try:
            if Path(values).is_file():
                with open(values, encoding="utf-8") as file:
                    _check_sections(Recipe, load_values(file.read(MAX_CHARACTERS + 1)))
        except (OSError, UnicodeDecodeError, YAMLError, ValueError) as error:
            raise TypeError(" ".join(str(error).split())) from error
        super().__call__(parser, cfg, values, option_string)


def _check_sections(section, given, name="the recipe"):
    """Refuse a section of a recipe that is not a mapping, and fields that it does not have.

    One that a file names and leaves empty would go back to the defaults, whatever the files before
    said.
    """
    if not isinstance(given, dict):
        received = "null" if given is None else f"{given!r:.80}"
        raise ValueError(f"{name} must have fields, received {received}.")
    parts = {part.name: part for part in fields(section)}
    for key, value in given.items():
        field = str(key) if section is Recipe else f"{name}.{key}"
        if key not in parts:
            similar = difflib.get_close_matches(str(key), parts, 1)
            hint = f"did you mean {similar[0]}?" if similar else f"there are {', '.join(parts)}."
            raise ValueError(f"{field:.80} is not a field; {hint}")
        if is_dataclass(parts[key].default_factory):
            _check_sections(parts[key].default_factory, value, field)


def load_recipe(files, overrides=()):
    """Read a recipe and change fields of it.

    Args:
        files: YAML file, or several of them, of which later ones win field by field; a list or a
            dict is one field. Fields that none of them names keep their defaults; the name of
            several files is then `composed_name`.
        overrides: command-line options such as `["--pooling.name", "gap"]`, which win over all.

    Returns:
        `Recipe`.

    Raises:
        ValueError: naming the file that is at fault, if it is one, and an unknown field or a value
            that is not accepted.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     data, method = Path(folder) / "data.yaml", Path(folder) / "method.yaml"
        ...     _ = data.write_text("data: {name: cub200, image_size: 227}")
        ...     _ = method.write_text("data: {image_size: 224}")
        ...     recipe = load_recipe([data, method], ["--seed", "3"])
        >>> recipe.data.name, recipe.data.image_size, recipe.seed, recipe.name
        ('cub200', 224, 3, 'method')
    """
    files = [files] if isinstance(files, str | os.PathLike) else list(files)
    try:
        return _read(files, overrides)
    except ValueError as error:
        raise located(error, files) from error


def _read(files, overrides=()):
    parser = _recipe_parser()
    name = ["--name", composed_name(files)] if len(files) > 1 else []
    try:
        namespace = parser.parse_args([*name, *config_options(files), *overrides])
    except ArgumentError as error:
        raise ValueError(readable(str(error), parser)) from error
    return parsed_recipe(parser, namespace)


@cache
def _recipe_parser():
    """A parser of recipes; to make one takes longer than to read a file."""
    parser = ArgumentParser(exit_on_error=False)
    add_recipe_arguments(parser)
    return parser


def config_options(files):
    """Recipe files as options of a parser with `add_recipe_arguments`.

    Args:
        files: their paths.

    Returns:
        list of str.

    Example:
        >>> config_options(["a.yaml", "b.yaml"])
        ['--config', 'a.yaml', '--config', 'b.yaml']
    """
    return [option for file in files for option in ("--config", str(file))]


def located(error, files):
    """An error of a recipe that names the file that is at fault.

    Args:
        error: what reading the files, and perhaps options after them, raised.
        files: their paths, in the order in which they were read.

    Returns:
        `ValueError`: with the file at whose end reading them begins to fail, or none if they can be
        read.

    Example:
        >>> located(ValueError("seed must be ..."), [])
        ValueError('seed must be ...')
    """
    faulty = None
    for count in range(len(files), 0, -1):
        try:
            _read(files[:count])
            break
        except ValueError:
            faulty = files[count - 1]
    return ValueError(str(error) if faulty is None else f"{faulty}: {error}")


def recipe_text(recipe):
    """A recipe with all its fields, as YAML.

    Args:
        recipe: `Recipe`.

    Returns:
        str.

    Example:
        >>> print(recipe_text(Recipe(name="mine")).splitlines()[0])
        name: mine
    """
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(Recipe)
    return parser.dump(parser.parse_object(asdict(recipe)), skip_unset=False)


def save_recipe(recipe, path):
    """Write a recipe as YAML, under a temporary name first.

    Args:
        recipe: `Recipe`.
        path: file to write.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     save_recipe(Recipe(), Path(folder) / "recipe.yaml")
        ...     load_recipe(Path(folder) / "recipe.yaml") == Recipe()
        True
    """
    replace_text(path, recipe_text(recipe))
