"""The warm-up: first epochs of training in which the backbone stands still."""

import keras

from gsp_tf.experiment._optimizer import build_warmup_optimizer
from gsp_tf.training import MetricLearner


def warm_up(recipe, learner, best, fit, first_epoch=0):
    """Train everything but the backbone for the epochs of the warm-up.

    A second learner of the same layers does it. The optimizer of the first stays as it is at the
    start, and `best` saves that learner, its backbone trainable: as training continues from there.

    Args:
        recipe: `gsp_tf.recipe.TrainingRecipe`.
        learner: compiled `MetricLearner` of `build_learner`.
        best: `SaveBest` of that learner.
        fit: function `fit(train_with, first_epoch, epochs, *callbacks)` that calls `train_with`,
            the `fit` of a model, with these callbacks among others.
        first_epoch: epoch to begin with, where a run continues.
    """
    backbone = next(layer for layer in learner.embedder.layers if isinstance(layer, keras.Model))

    def save_if_due(*_):
        backbone.trainable = True
        best.save_if_due()
        backbone.trainable = False

    backbone.trainable = False
    try:
        head = MetricLearner(
            learner.embedder, dict(learner.named_losses), loss_weights=learner.loss_weights
        )
        head.compile(
            build_warmup_optimizer(recipe, head.trainable_variables),
            jit_compile=recipe.jit_compile,
        )
        save = keras.callbacks.LambdaCallback(
            on_epoch_begin=save_if_due, on_epoch_end=best.on_epoch_end, on_train_end=save_if_due
        )
        fit(head.fit, first_epoch, recipe.warmup_epochs, save)
    finally:
        backbone.trainable = True
