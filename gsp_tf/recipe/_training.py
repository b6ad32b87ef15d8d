"""The sections of a recipe about training and evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jsonargparse.typing import ClosedUnitInterval, OpenUnitInterval

from gsp_tf._names import NAMES
from gsp_tf._numbers import (
    Count,
    CountOrZero,
    NonNegative,
    Positive,
    PositiveShare,
    ShareBelowOne,
    Size,
)
from gsp_tf.recipe._ranges import Section

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
        adapt_batches: training batches whose local features give the initial prototypes of a
            pooling such as gsp, net_vlad or optimal_transport; 0 keeps random prototypes.
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
            self.refuse("schedule.minimum", accepted, minimum)
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
            self.refuse("schedule.name", accepted, schedule)
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
    batch_size: Size = 128
