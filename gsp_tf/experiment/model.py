"""The models of a recipe."""

import keras

from gsp_tf import backbones
from gsp_tf.experiment.heads import build_head, num_groups
from gsp_tf.experiment.losses import build_loss
from gsp_tf.experiment.optimizer import build_optimizer, regularize
from gsp_tf.losses import ZeroShotLoss
from gsp_tf.recipe import BRANCHED, BRANCHES
from gsp_tf.training import MetricLearner


def build_embedder(recipe, channels):
    """Model from images to L2-normalised embeddings (and attributes, if the recipe uses them).

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        channels: channels of the images.

    Returns:
        Keras model from images `(B, S, S, channels)`, pixels in [0, 255], to embeddings `(B, D)`,
        to embeddings and attributes `(B, m)` if the zero-shot loss has a weight, or to the
        embeddings of both branches if the head is coded_residual or dense_branches.

    Raises:
        ValueError: if the zero-shot loss is asked for without gsp, an argument of the pooling or
            the head is not accepted, or the backbone cannot be had as the recipe says.

    Example:
        >>> from gsp_tf.recipe import Recipe
        >>> build_embedder(Recipe(), channels=1).output_shape
        (None, 64)
    """
    size = recipe.data.image_size
    images = keras.Input((size, size, channels), name="image")
    outputs = build_head(recipe, _build_backbone(recipe, (size, size, channels))(images))
    return keras.Model(images, outputs, name="embedder")


def _build_backbone(recipe, input_shape):
    has_two_maps = recipe.head.name == "global_local"
    is_local = has_two_maps and recipe.head.arguments.get("heads") == "local"
    weights = recipe.backbone.weights if recipe.initial_run is None else None
    recipe = recipe.backbone
    backbone = backbones.create(
        recipe.name, input_shape, weights=weights, intermediate=has_two_maps
    )
    if is_local:  # what follows the intermediate map would train on nothing
        backbone = keras.Model(backbone.input, backbone.output[0], name=backbone.name)
    if recipe.freeze_batch_normalization:
        backbone = backbones.freeze_batch_normalization(backbone)
    return backbone


def build_learner(recipe, num_classes, channels):
    """The embedder of a recipe with its losses, compiled.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        num_classes: number of training classes.
        channels: channels of the images.

    Returns:
        `MetricLearner`.

    Raises:
        ValueError: as `build_embedder`, and if a pattern of `recipe.training` is no regular
            expression or matches no trainable weight.

    Example:
        >>> from gsp_tf.recipe import Recipe
        >>> learner = build_learner(Recipe(), num_classes=5, channels=1)
        >>> tuple(learner.embedding_loss.proxies.shape)
        (5, 64)
    """
    keras.config.set_dtype_policy(recipe.training.precision)
    try:
        embedder = build_embedder(recipe, channels)
    finally:
        keras.config.set_dtype_policy("float32")
    learner = MetricLearner(embedder, **_build_losses(recipe, num_classes))
    learner.compile(build_optimizer(recipe.training), jit_compile=recipe.training.jit_compile)
    learner.optimizer.build(learner.trainable_variables)
    regularize(recipe.training, learner.trainable_variables)
    return learner


def _build_losses(recipe, num_classes):
    """The losses of a recipe, as arguments of `MetricLearner`."""
    if recipe.head.name in BRANCHED:
        losses = {name: build_loss(recipe.loss, num_classes) for name in BRANCHES}
        return {"loss": losses, "loss_weights": recipe.loss.weights}
    loss = build_loss(recipe.loss, num_classes, num_groups(recipe))
    zero_shot = recipe.zero_shot
    if zero_shot.weight > 0:
        arguments = zero_shot.embedding_dim, zero_shot.ridge, zero_shot.scale, zero_shot.reduction
        attribute_loss = ZeroShotLoss(num_classes, *arguments)
        return dict(loss=loss, attribute_loss=attribute_loss, attribute_weight=zero_shot.weight)
    return {"loss": loss}


def features_model(embedder):
    """The part of an embedder before its pooling layer, and that layer.

    Args:
        embedder: model of `build_embedder`.

    Returns:
        Keras model from images to local features `(B, H, W, C)`, and the pooling layer, or the
        layer that a head has in its place.

    Example:
        >>> from gsp_tf.recipe import Recipe
        >>> features, pooling = features_model(build_embedder(Recipe(), channels=1))
        >>> features.output_shape, type(pooling).__name__
        ((None, 12, 12, 64), 'GeneralizedSumPooling')
    """
    pooling = embedder.get_layer("pooling")
    return keras.Model(embedder.input, pooling.input), pooling


def adapt_prototypes(embedder, batches):
    """Take the prototypes of an embedder's pooling from local features as training sees them.

    A pooling that has none, such as gap, stays as it is. The features are those of training mode:
    batch normalisation uses the statistics of the batch. Its moving averages are left as they were.

    Args:
        embedder: model of `build_embedder`.
        batches: finite iterable of `(images, labels)`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.recipe import Recipe
        >>> embedder = build_embedder(Recipe(), channels=1)
        >>> images = np.random.default_rng(0).uniform(0, 255, (2, 48, 48, 1))
        >>> adapt_prototypes(embedder, [(images, [0, 1])])
        >>> float(np.linalg.norm(embedder.get_layer("pooling").prototypes, axis=1).max())
        1.0
    """
    features, pooling = features_model(embedder)
    if not hasattr(pooling, "adapt"):
        return
    state = [variable.numpy() for variable in features.non_trainable_variables]
    pooling.adapt(features(images, training=True) for images, _ in batches)
    for variable, value in zip(features.non_trainable_variables, state, strict=True):
        variable.assign(value)
