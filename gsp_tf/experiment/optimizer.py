"""The optimizers of a recipe."""

import re

import keras
from keras.optimizers import schedules

from gsp_tf.training import (
    idle_patterns,
    with_learning_rate_multipliers,
    with_weight_decay_exclusions,
)

_CLASSES = {
    "adam": keras.optimizers.Adam,
    "adamw": keras.optimizers.AdamW,
    "sgd": lambda *args, **kwargs: keras.optimizers.SGD(*args, momentum=0.9, **kwargs),
}


def build_optimizer(recipe):
    """The optimizer of training after the warm-up.

    Args:
        recipe: `gsp_tf.recipe.TrainingRecipe`.

    Returns:
        Keras optimizer.

    Example:
        >>> from gsp_tf.recipe import TrainingRecipe
        >>> build_optimizer(TrainingRecipe(optimizer="sgd")).momentum
        0.9
    """
    return _optimizer(
        recipe, _rate(recipe), recipe.learning_rate_multipliers, recipe.weight_decay_exclusions
    )


def build_warmup_optimizer(recipe, variables):
    """The optimizer of the warm-up: at a constant rate, for the variables that train in it.

    Args:
        recipe: `gsp_tf.recipe.TrainingRecipe`. Its patterns that match none of the variables are
            left out: they are those of the backbone, which stands still.
        variables: trainable Keras variables.

    Returns:
        Keras optimizer.

    Example:
        >>> from gsp_tf.recipe import TrainingRecipe
        >>> recipe = TrainingRecipe(learning_rate=1e-5, warmup_learning_rate_multiplier=10)
        >>> float(build_warmup_optimizer(recipe, []).learning_rate)
        1e-04
    """
    multipliers, exclusions = recipe.learning_rate_multipliers, recipe.weight_decay_exclusions
    idle = idle_patterns([*multipliers, *exclusions], variables)
    return _optimizer(
        recipe,
        recipe.learning_rate * recipe.warmup_learning_rate_multiplier,
        {pattern: factor for pattern, factor in multipliers.items() if pattern not in idle},
        [pattern for pattern in exclusions if pattern not in idle],
    )


def _optimizer(recipe, rate, multipliers, exclusions):
    moments = {} if recipe.optimizer == "sgd" else {"beta_2": recipe.beta_2}
    optimizer = _CLASSES[recipe.optimizer](
        rate,
        weight_decay=recipe.weight_decay or None,
        global_clipnorm=recipe.clip_norm,
        **moments,
    )
    if multipliers:
        optimizer = with_learning_rate_multipliers(optimizer, multipliers)
    if exclusions and recipe.weight_decay:
        optimizer = with_weight_decay_exclusions(optimizer, exclusions)
    if recipe.precision == "mixed_float16":
        return keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer


def _rate(recipe):
    rate, schedule = recipe.learning_rate, recipe.schedule
    if schedule.name == "step":
        steps = schedule.decay_epochs * recipe.steps_per_epoch
        return schedules.ExponentialDecay(rate, steps, schedule.decay_factor, staircase=True)
    if schedule.name == "cosine":
        steps = (recipe.epochs - recipe.warmup_epochs) * recipe.steps_per_epoch
        return schedules.CosineDecay(rate, steps, alpha=(schedule.minimum or 0.0) / rate)
    return rate


def regularize(recipe, variables):
    """Give variables the L2 regulariser of a recipe, which Keras adds to the loss.

    Args:
        recipe: `gsp_tf.recipe.TrainingRecipe`.
        variables: trainable Keras variables.

    Raises:
        ValueError: if a pattern of `weight_decay_exclusions` matches none of them.

    Example:
        >>> from gsp_tf.recipe import TrainingRecipe
        >>> dense = keras.layers.Dense(2)
        >>> dense.build((None, 3))
        >>> recipe = TrainingRecipe(l2_regularization=0.1, weight_decay_exclusions=["bias"])
        >>> regularize(recipe, dense.trainable_variables)
        >>> dense.kernel.regularizer is None, dense.bias.regularizer is None
        (False, True)
    """
    if not recipe.l2_regularization:
        return
    idle = idle_patterns(recipe.weight_decay_exclusions, variables)
    if idle:
        raise ValueError(
            f"training.weight_decay_exclusions {idle} match none of the trainable variables."
        )
    for variable in variables:
        if not any(re.search(p, variable.path) for p in recipe.weight_decay_exclusions):
            # Keras' L2 is the sum of squares, whose gradient is twice the weights.
            variable.regularizer = keras.regularizers.L2(0.5 * recipe.l2_regularization)


def plateau_callbacks(schedule, monitor):
    """The callback of the schedule plateau, by name.

    Args:
        schedule: `gsp_tf.recipe.ScheduleRecipe`.
        monitor: metric to follow; larger is better.

    Returns:
        dict with a Keras callback, empty for the other schedules.

    Example:
        >>> from gsp_tf.recipe import ScheduleRecipe
        >>> plateau_callbacks(ScheduleRecipe(), "val_map_at_r")
        {}
    """
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
