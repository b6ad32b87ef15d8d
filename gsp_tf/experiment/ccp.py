"""CCP training as a recipe describes it."""

from gsp_tf.experiment.data import evaluation_batches
from gsp_tf.training import ChanceConstrainedTrainer, ProxyPool


def ccp_trainer(recipe, learner):
    """The trainer of a recipe around a learner.

    Args:
        recipe: `gsp_tf.recipe.Recipe` with `trainer="ccp"`.
        learner: compiled `MetricLearner` of `build_learner`.

    Returns:
        `ChanceConstrainedTrainer`.

    Raises:
        ValueError: if the loss is not one over pairs.

    Example:
        >>> from gsp_tf.experiment.model import build_learner
        >>> from gsp_tf.recipe import LossRecipe, Recipe
        >>> recipe = Recipe(trainer="ccp", loss=LossRecipe("contrastive"))
        >>> ccp_trainer(recipe, build_learner(recipe, num_classes=5, channels=1)).pool_size
        12
    """
    return ChanceConstrainedTrainer(
        learner,
        proxies_per_class=recipe.ccp.proxies_per_class,
        pool_size=recipe.ccp.pool_size,
        projection_weight=recipe.ccp.projection_weight,
        patience=recipe.ccp.patience,
        batch_weight=recipe.ccp.batch_weight,
        max_projections=recipe.ccp.max_projections,
        monitor=recipe.protocol.monitor,
    )


def proxy_pool(recipe, images):
    """The pool of a recipe's training images, as evaluation sees them.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        images: `ImageSet` of the training classes.

    Returns:
        `ProxyPool`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.data import ArrayImages
        >>> from gsp_tf.recipe import Recipe
        >>> images = ArrayImages(np.zeros((4, 8, 8, 1), "uint8"), [0, 0, 1, 1], ["a", "b"])
        >>> proxy_pool(Recipe(), images).num_classes
        2
    """
    return ProxyPool(
        images.labels,
        lambda indices: evaluation_batches(recipe, images, indices),
        recipe.seed,
    )
