"""Build the optimizers of a recipe."""

import re

import keras
from keras.optimizers import schedules

from gsp_tf._arguments import idle_patterns
from gsp_tf._names import named
from gsp_tf.recipe import ScheduleRecipe, TrainingRecipe
from gsp_tf.training import (
    layer_wise_multipliers,
    with_learning_rate_multipliers,
    with_weight_decay_exclusions,
)


def build_optimizer(
    recipe: TrainingRecipe, backbone: keras.Model | None = None
) -> keras.optimizers.Optimizer:
    """The optimizer of training after the warm-up, for the layers of a backbone and others."""
    multipliers = recipe.learning_rate_multipliers
    if recipe.lowest_layer_multiplier != 1:
        multipliers = multipliers | layer_wise_multipliers(backbone, recipe.lowest_layer_multiplier)
    averaging = {"use_ema": True, "ema_momentum": recipe.ema_momentum}
    return _optimizer(
        recipe,
        _rate(recipe),
        multipliers,
        recipe.weight_decay_exclusions,
        **(averaging if recipe.ema_momentum else {}),
    )


def build_warmup_optimizer(recipe: TrainingRecipe, variables: list) -> keras.optimizers.Optimizer:
    """The optimizer of the warm-up, with a constant rate, for the variables that it trains."""
    # Patterns that match none of the variables belong to the backbone.
    multipliers, exclusions = recipe.learning_rate_multipliers, recipe.weight_decay_exclusions
    idle = idle_patterns([*multipliers, *exclusions], [v.path for v in variables])
    return _optimizer(
        recipe,
        recipe.learning_rate * recipe.warmup_learning_rate_multiplier,
        {pattern: factor for pattern, factor in multipliers.items() if pattern not in idle},
        [pattern for pattern in exclusions if pattern not in idle],
    )


def _optimizer(recipe, rate, multipliers, exclusions, **settings):
    accumulated, decay = recipe.gradient_accumulation_steps, recipe.weight_decay or None
    optimizer = named("optimizer", recipe.optimizer)(
        rate,
        weight_decay=decay,
        global_clipnorm=recipe.clip_norm,
        gradient_accumulation_steps=accumulated if accumulated > 1 else None,
        **_defaults(recipe, decay) | recipe.optimizer_arguments,
        **settings,
    )
    if multipliers:
        optimizer = with_learning_rate_multipliers(optimizer, multipliers)
    if exclusions and recipe.weight_decay:
        optimizer = with_weight_decay_exclusions(optimizer, exclusions)
    if recipe.precision == "mixed_float16":
        return keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer


def _defaults(recipe, decay):
    """Arguments of an optimizer that differ from the defaults of Keras."""
    if recipe.optimizer in ("adam", "adamw"):
        return {"beta_2": recipe.beta_2}
    return {"sgd": {"momentum": 0.9}, "muon": {"adam_weight_decay": decay}}.get(
        recipe.optimizer, {}
    )


def _rate(recipe):
    rate, schedule, rising = recipe.learning_rate, recipe.schedule, recipe.warmup_steps
    warm_up = {"warmup_target": rate, "warmup_steps": rising} if rising else {}
    if schedule.name == "step":
        steps = schedule.decay_epochs * recipe.steps_per_epoch
        return schedules.ExponentialDecay(rate, steps, schedule.decay_factor, staircase=True)
    if schedule.name == "cosine":
        steps = (recipe.epochs - recipe.warmup_epochs) * recipe.steps_per_epoch - rising
        alpha = (schedule.minimum or 0.0) / rate
        return schedules.CosineDecay(0.0 if rising else rate, max(1, steps), alpha, **warm_up)
    if rising:  # then a cosine between equal rates
        return schedules.CosineDecay(0.0, decay_steps=1, alpha=1.0, **warm_up)
    return rate


def regularize(recipe: TrainingRecipe, variables: list) -> None:
    """Set the L2 regulariser of a recipe on variables; Keras adds it to the loss."""
    if not recipe.l2_regularization:
        return
    idle = idle_patterns(recipe.weight_decay_exclusions, [v.path for v in variables])
    if idle:
        raise ValueError(
            f"training.weight_decay_exclusions {idle} match none of the trainable variables."
        )
    for variable in variables:
        if not any(re.search(p, variable.path) for p in recipe.weight_decay_exclusions):
            # Keras' L2 is the sum of squares; its gradient is twice the weights.
            variable.regularizer = keras.regularizers.L2(0.5 * recipe.l2_regularization)


def plateau_callbacks(schedule: ScheduleRecipe, monitor: str) -> dict:
    """The callback of the schedule plateau, by name; empty for other schedules."""
    if schedule.name != "plateau":
        return {}
    return {
        "plateau": keras.callbacks.ReduceLROnPlateau(
            monitor,
            factor=schedule.decay_factor,
            patience=schedule.patience,
            mode="max",
            min_delta=schedule.min_delta,
            cooldown=schedule.cooldown,
            min_lr=1e-6 if schedule.minimum is None else schedule.minimum,
        )
    }
