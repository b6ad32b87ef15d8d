"""Build the models of a recipe."""

import keras

from gsp_tf import backbones
from gsp_tf._backend import jit_compile
from gsp_tf.layers import FrozenNetwork
from gsp_tf.recipe import Recipe, resolved
from gsp_tf.runs._classification import build_classifier_head
from gsp_tf.runs._initial import is_run, weights_of_run
from gsp_tf.runs._losses import build_losses
from gsp_tf.runs._optimizer import build_optimizer, regularize
from gsp_tf.runs.heads import build_head
from gsp_tf.training import MetricLearner, add_lora

FROZEN = "frozen"
"""Name of the layer of an embedder that holds the frozen part of its backbone."""


def build_embedder(recipe: Recipe, channels: int) -> keras.Model:
    """Build the model from images to L2-normalised embeddings (and attributes, if they are used).

    With trainer=classification it is the model from images to pooled features `(B, C)`.

    Args:
        recipe: The recipe.
        channels: Channels of the images.

    Returns:
        Model from images `(B, S, S, channels)`, pixels in [0, 255], to embeddings `(B, D)`. It also
        gives attributes `(B, m)` if the zero-shot loss has a weight, or the embeddings of the
        second branch if the head is coded_residual or dense_branches.

    Raises:
        ValueError: if the zero-shot loss is used without gsp, an argument of the pooling or the
            head is not accepted, the backbone or its weights are not available, the backbone cannot
            be split at `backbone.frozen_to`, or a pattern of the backbone matches none of its
            layers.

    Example:
        >>> from gsp_tf.recipe import Recipe
        >>> build_embedder(Recipe(), channels=1).output_shape
        (None, 64)
    """
    recipe, size = resolved(recipe), recipe.data.image_size
    x = images = keras.Input((size, size, channels), name="image")
    backbone = build_backbone(recipe, (size, size, channels))
    if recipe.backbone.frozen_to is not None:
        lower, backbone = backbones.split(backbone, recipe.backbone.frozen_to)
        x = FrozenNetwork(lower, name=FROZEN)(x)
    if recipe.backbone.freeze:
        backbones.freeze_layers(backbone, recipe.backbone.freeze)
    lora = recipe.backbone.lora
    if lora.rank:
        add_lora(backbone, lora.rank, lora.alpha, lora.layers)
    is_classifier = recipe.trainer == "classification"
    features = backbone(x)
    outputs = build_classifier_head(features) if is_classifier else build_head(recipe, features)
    return keras.Model(images, outputs, name="embedder")


def build_backbone(recipe, input_shape):
    """Build the backbone of a recipe with its initial weights."""
    head = recipe.head
    has_two_maps = head is not None and head.name == "global_local"
    is_local = has_two_maps and head.arguments["heads"] == "local"
    weights = recipe.backbone.weights if recipe.initial_run is None else None
    recipe = recipe.backbone
    named = (None, *backbones.pretrained(recipe.name))
    of_run = weights not in named and is_run(weights)
    backbone = backbones.create(
        recipe.name,
        input_shape,
        None if of_run else weights,
        intermediate=has_two_maps,
        preset=recipe.preset,
        tokens=recipe.tokens,
    )
    if of_run:
        backbone.set_weights(weights_of_run(weights, backbone))
    if is_local:  # layers after the intermediate map would get no gradient
        backbone = keras.Model(backbone.input, backbone.output[0], name=backbone.name)
    if recipe.freeze_batch_normalization:
        backbone = backbones.freeze_batch_normalization(backbone)
    return backbone


def build_learner(recipe: Recipe, num_classes: int, channels: int) -> MetricLearner:
    """Build the embedder of a recipe with its losses, compiled.

    Args:
        recipe: The recipe.
        num_classes: Number of training classes.
        channels: Channels of the images.

    Raises:
        ValueError: as `build_embedder`, and if a pattern of `recipe.training` is not a regular
            expression or matches no trainable weight.

    Example:
        >>> from gsp_tf.recipe import Recipe
        >>> learner = build_learner(Recipe(), num_classes=5, channels=1)
        >>> tuple(learner.embedding_loss.proxies.shape)
        (5, 64)
    """
    recipe = resolved(recipe)
    keras.config.set_dtype_policy(recipe.training.precision)
    try:
        embedder = build_embedder(recipe, channels)
    finally:
        keras.config.set_dtype_policy("float32")
    losses, training = build_losses(recipe, num_classes), recipe.training
    learner = MetricLearner(embedder, **losses, chunk_size=training.chunk_size)
    compile_learner(learner, recipe)
    regularize(training, learner.trainable_variables)
    return learner


def compile_learner(learner, recipe):
    """Compile a learner with a new optimizer of a recipe, built for its weights."""
    training, variables = recipe.training, learner.trainable_variables
    optimizer = build_optimizer(training, trained_backbone(learner))
    learner.compile(optimizer, jit_compile=jit_compile(training.jit_compile))
    if recipe.trainer == "ccp":  # its copy of the optimizer trains proxies too
        variables = [*variables, keras.Variable(0.0, name="proxies")]
    learner.optimizer.build(variables)


def trained_backbone(learner):
    """The backbone of a learner, or its part after the frozen layers."""
    return next(layer for layer in learner.embedder.layers if isinstance(layer, keras.Model))


def features_model(embedder: keras.Model) -> tuple[keras.Model, keras.layers.Layer]:
    """The part of an embedder before its pooling layer, and that layer.

    Args:
        embedder: Model of `build_embedder`.

    Returns:
        Model from images to local features `(B, H, W, C)`, and the pooling layer, or the layer of
        the head that replaces it.

    Example:
        >>> from gsp_tf.recipe import Recipe
        >>> features, pooling = features_model(build_embedder(Recipe(), channels=1))
        >>> features.output_shape, type(pooling).__name__
        ((None, 12, 12, 64), 'GeneralizedSumPooling')
    """
    pooling = embedder.get_layer("pooling")
    return keras.Model(embedder.input, pooling.input), pooling


def adapt_prototypes(embedder, batches, start=None):
    """Take the prototypes of an embedder's pooling from its local features in training mode."""
    # Batches are images, or values of the tensor `start` of the embedder. Batch normalisation uses
    # the statistics of the batch; its moving averages are restored.
    features, pooling = features_model(embedder)
    if start is not None:
        features = keras.Model(start, features.output)
    state = [variable.numpy() for variable in features.non_trainable_variables]
    pooling.adapt(features(images, training=True) for images, _ in batches)
    for variable, value in zip(features.non_trainable_variables, state, strict=True):
        variable.assign(value)
