"""The warm-up: first epochs of training in which the backbone stands still."""

import keras

from gsp_tf.experiment.optimizer import build_warmup_optimizer
from gsp_tf.training import MetricLearner


def warm_up(recipe, learner, best, fit):
    """Train everything but the backbone for the epochs of the warm-up.

    A second learner of the same layers does it. The optimizer of the first stays as it is at the
    start, and `best` saves that learner, its backbone trainable: as training goes on from there.

    Args:
        recipe: `gsp_tf.recipe.TrainingRecipe`.
        learner: compiled `MetricLearner` of `build_learner`.
        best: `SaveBest` of that learner.
        fit: function `fit(train_with, first_epoch, epochs, *callbacks)` that calls `train_with`,
            the `fit` of a model, with these callbacks among others.
    """
    backbone = next(layer for layer in learner.embedder.layers if isinstance(layer, keras.Model))

    def save_best(epoch, logs):
        backbone.trainable = True
        best.on_epoch_end(epoch, logs)
        backbone.trainable = False

    backbone.trainable = False
    try:
        head = MetricLearner(
            learner.embedder,
            learner.embedding_loss,
            learner.attribute_loss,
            learner.attribute_weight,
        )
        head.compile(
            build_warmup_optimizer(recipe, head.trainable_variables),
            jit_compile=recipe.jit_compile,
        )
        save = keras.callbacks.LambdaCallback(on_epoch_end=save_best)
        fit(head.fit, 0, recipe.warmup_epochs, save)
    finally:
        backbone.trainable = True
