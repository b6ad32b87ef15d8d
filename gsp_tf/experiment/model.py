"""The models of a recipe."""

import math

import keras
from keras import layers

from gsp_tf import backbones
from gsp_tf.experiment.losses import build_loss
from gsp_tf.experiment.optimizer import build_optimizer, regularize
from gsp_tf.layers import GeneralizedSumPooling, L2Normalization
from gsp_tf.losses import ZeroShotLoss
from gsp_tf.training import MetricLearner


def build_embedder(recipe, channels):
    """Model from images to L2-normalised embeddings (and attributes, if the recipe uses them).

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        channels: channels of the images.

    Returns:
        Keras model from images `(B, S, S, channels)`, pixels in [0, 255], to embeddings `(B, D)`,
        or to embeddings and attributes `(B, m)` if the zero-shot loss has a weight.

    Raises:
        ValueError: if the zero-shot loss is asked for without gsp, or the backbone cannot be had
            as the recipe says.

    Example:
        >>> from gsp_tf.recipe import Recipe
        >>> build_embedder(Recipe(), channels=1).output_shape
        (None, 64)
    """
    with_attributes = recipe.zero_shot.weight > 0
    if with_attributes and recipe.pooling.name != "gsp":
        raise ValueError(
            "zero_shot.weight > 0 needs the attributes of pooling.name=gsp, "
            f"received pooling.name={recipe.pooling.name}."
        )
    size = recipe.data.image_size
    images = keras.Input((size, size, channels), name="image")
    x = _build_backbone(recipe.backbone, (size, size, channels))(images)
    is_set = len(x.shape) == 3
    before = recipe.embedding.position == "before_pooling"
    if before:
        convolution = layers.Conv1D if is_set else layers.Conv2D
        x = convolution(recipe.embedding.dim, 1, use_bias=False, name="embedding")(x)
    attributes = None
    if recipe.pooling.name == "gsp":
        x = GeneralizedSumPooling(
            num_prototypes=recipe.pooling.num_prototypes,
            transport_ratio=recipe.pooling.transport_ratio,
            entropy_smoothing=recipe.pooling.entropy_smoothing,
            solver=recipe.pooling.solver,
            return_attributes=with_attributes,
            name="pooling",
        )(x)
        if with_attributes:
            x, attributes = x
    else:
        average = layers.GlobalAveragePooling1D if is_set else layers.GlobalAveragePooling2D
        x = average(name="pooling")(x)
    if not before:
        x = layers.Dense(recipe.embedding.dim, use_bias=False, name="embedding")(x)
    x = L2Normalization(dtype="float32", name="normalization")(x)
    return keras.Model(images, [x, attributes] if with_attributes else x, name="embedder")


def _build_backbone(recipe, input_shape):
    backbone = backbones.create(recipe.name, input_shape, weights=recipe.weights)
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
    zero_shot = recipe.zero_shot
    attribute_loss = (
        ZeroShotLoss(num_classes, zero_shot.embedding_dim, zero_shot.ridge, zero_shot.scale)
        if zero_shot.weight > 0
        else None
    )
    learner = MetricLearner(
        embedder, build_loss(recipe.loss, num_classes), attribute_loss, zero_shot.weight
    )
    learner.compile(build_optimizer(recipe.training), jit_compile=recipe.training.jit_compile)
    learner.optimizer.build(learner.trainable_variables)
    regularize(recipe.training, learner.trainable_variables)
    return learner


def features_model(embedder):
    """The part of an embedder before its pooling layer, and that layer.

    Args:
        embedder: model of `build_embedder`.

    Returns:
        Keras model from images to local features `(B, H, W, C)`, and the pooling layer.

    Example:
        >>> from gsp_tf.recipe import Recipe
        >>> features, pooling = features_model(build_embedder(Recipe(), channels=1))
        >>> features.output_shape, type(pooling).__name__
        ((None, 12, 12, 64), 'GeneralizedSumPooling')
    """
    pooling = embedder.get_layer("pooling")
    return keras.Model(embedder.input, pooling.input), pooling


def adapt_prototypes(embedder, batches):
    """Take the prototypes of an embedder's gsp layer from local features as training sees them.

    The features are those of training mode: batch normalisation uses the statistics of the batch.
    Its moving averages are left as they were.

    Args:
        embedder: model of `build_embedder` with gsp.
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
    state = [variable.numpy() for variable in features.non_trainable_variables]
    pooling.adapt(features(images, training=True) for images, _ in batches)
    for variable, value in zip(features.non_trainable_variables, state, strict=True):
        variable.assign(value)


def pooling_weights(embedder, images):
    """Weights with which an embedder pools the local features of images.

    Args:
        embedder: model of `build_embedder`.
        images: float array `(B, S, S, channels)`, pixels in [0, 255].

    Returns:
        array `(B, H, W)`, each map sums to 1; `None` if the pooling has no weights.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.recipe import Recipe
        >>> embedder = build_embedder(Recipe(), channels=1)
        >>> pooling_weights(embedder, np.zeros((2, 48, 48, 1))).shape
        (2, 12, 12)
    """
    features, pooling = features_model(embedder)
    if not hasattr(pooling, "pooling_weights"):
        return None
    weights = pooling.pooling_weights(features(images, training=False))
    if len(weights.shape) == 2:  # the patches of a transformer, which form a square
        side = math.isqrt(weights.shape[1])
        weights = keras.ops.reshape(weights, (-1, side, side))
    return keras.ops.convert_to_numpy(weights)
