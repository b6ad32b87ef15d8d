"""Build the models of a recipe."""

import functools
from collections.abc import Callable

import keras
import numpy as np

from gsp_tf import backbones, layers
from gsp_tf._backend import jit_compile
from gsp_tf._names import named
from gsp_tf._typing import Tensor
from gsp_tf.layers import FrozenNetwork
from gsp_tf.losses import SemiSupervisedLoss, SoftmaxClassifier, ZeroShotLoss
from gsp_tf.recipe import (
    BRANCHES,
    OBJECTS,
    VIEWS,
    Recipe,
    class_recipe,
    has_branches,
    num_groups,
    parameters,
    resolved,
)
from gsp_tf.runs._initial import is_run, weights_of_run
from gsp_tf.runs._optimizer import build_optimizer, regularize
from gsp_tf.training import MetricLearner, add_lora

FROZEN = "frozen"
"""Name of the layer of an embedder that holds the frozen part of its backbone."""
_SECOND_DIM = 1024


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
    features = backbone(x)
    if recipe.trainer == "classification":
        outputs = _averaged(features, name="pooling", dtype="float32")
    else:
        outputs = build_head(recipe, features)
    return keras.Model(images, outputs, name="embedder")


def _averaged(features, **options):
    """The average over the places of a map or a set of tokens, by the layer of Keras."""
    kinds = {3: keras.layers.GlobalAveragePooling1D, 4: keras.layers.GlobalAveragePooling2D}
    return kinds[len(features.shape)](**options)(features)


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
    losses, training = _build_losses(recipe, num_classes), recipe.training
    learner = MetricLearner(embedder, **losses, chunk_size=training.chunk_size)
    compile_learner(learner, recipe)
    regularize(training, _trained(learner, recipe))
    return learner


def compile_learner(learner, recipe):
    """Compile a learner with a new optimizer of a recipe, built for its weights."""
    training = recipe.training
    optimizer = build_optimizer(training, trained_backbone(learner))
    learner.compile(optimizer, jit_compile=jit_compile(training.jit_compile))
    learner.optimizer.build(_trained(learner, recipe))


def _trained(learner, recipe):
    """The weights that a recipe trains; those of ccp are made later, and one stands for them."""
    proxies = [keras.Variable(0.0, name="proxies")] if recipe.trainer == "ccp" else []
    return [*learner.trainable_variables, *proxies]


def trained_backbone(learner):
    """The backbone of a learner, or its part after the frozen layers."""
    return next(layer for layer in learner.embedder.layers if isinstance(layer, keras.Model))


def features_model(embedder: keras.Model) -> tuple[keras.Model, keras.layers.Layer]:
    """The part of an embedder before its pooling, and the pooling or the layer that replaces it."""
    pooling = embedder.get_layer("pooling")
    return keras.Model(embedder.input, pooling.input), pooling


def adapt_prototypes(embedder, batches, start=None, is_pooled=False):
    """Take the prototypes of an embedder's pooling from its features in training mode."""
    # Batches are images, or values of the tensor `start` of the embedder. Batch normalisation uses
    # the statistics of the batch; its moving averages are restored.
    features, pooling = features_model(embedder)
    if start is not None:
        features = keras.Model(start, features.output)
    if is_pooled:
        features = keras.Model(features.input, _averaged(features.output, keepdims=True))
    state = [variable.numpy() for variable in features.non_trainable_variables]
    pooling.adapt(features(images, training=True) for images, _ in batches)
    for variable, value in zip(features.non_trainable_variables, state, strict=True):
        variable.assign(value)


def build_head(recipe: Recipe, features: Tensor | list[Tensor]) -> Tensor | list[Tensor]:
    """Apply the head of a resolved recipe to the symbolic features of a backbone.

    Args:
        recipe: Resolved recipe, as `load_recipe` gives it.
        features: `(B, H, W, C)` or `(B, n, C)`; a list of the intermediate and the last features
            for `head.name=global_local`; of the class token `(B, 1, C)` and the patch tokens
            `(B, n, C)` for `backbone.tokens=both`.

    Returns:
        Embeddings `(B, D)` of length 1. With a zero-shot loss, a list of the embeddings and the
        attributes of GSP. With two branches, a list of the embeddings of both.
    """
    head, dim = recipe.head, recipe.embedding.dim
    if head is None:
        return _pooled(recipe, features)
    layer, name = named("head", head.name), "pooling"
    if has_branches(recipe):
        if head.name == "dense_branches":
            features, name = _build_pooling(recipe, len(features.shape) == 3)(features), "branches"
        dims = dim, recipe.embedding.second_dim or _SECOND_DIM
        first, second = layer(embedding_dim=dims, **head.arguments, name=name)(features)
        return [_unit(first, "normalization"), _unit(second, "second_normalization")]
    groups = num_groups(recipe)
    if groups is None:
        return _unit(layer(dim, **head.arguments, name=name)(features), "normalization")
    grouped = layer(group_dim=dim // groups, **head.arguments, name=name)(features)
    return _unit(keras.layers.Flatten()(_unit(grouped, "group_normalization")), "normalization")


def _build_pooling(recipe: Recipe, is_set: bool) -> keras.layers.Layer:
    """The pooling layer of a resolved recipe, for tokens or maps."""
    pooling = named("pooling", recipe.pooling.name)
    if is_set and pooling.__name__.endswith("2D"):  # of Keras
        pooling = getattr(keras.layers, pooling.__name__.replace("2D", "1D"))
    filled_in = {"return_attributes": True} if recipe.zero_shot.weight else {}
    return pooling(**recipe.pooling.arguments, **filled_in, name="pooling")


def _pooled(recipe, x):
    """Linear map of the pooled features; with the class token, that of both vectors together."""
    class_token, x = x if isinstance(x, list) else (None, x)
    is_set, embedding = len(x.shape) == 3, recipe.embedding
    before = embedding.position == "before_pooling"
    if before:
        x = _mapped(embedding, x)
    dim = x.shape[-1]
    x, attributes = _build_pooling(recipe, is_set)(x), None
    if recipe.zero_shot.weight:
        x, attributes = x
    if not before:
        x = _mapped(embedding, x)
    elif x.shape[-1] != dim:
        raise ValueError(
            f"pooling.name={recipe.pooling.name} makes {x.shape[-1]} values of {dim}: it needs "
            "embedding.position=after_pooling."
        )
    if class_token is not None:
        token = keras.layers.Flatten()(class_token)
        if embedding.map is None:
            x = keras.layers.Concatenate()([x, token])
        else:
            token = keras.layers.Dense(embedding.dim, use_bias=False, name="class_embedding")(token)
            x = keras.layers.Add()([x, token])
    embeddings = _unit(x, "normalization")
    return embeddings if attributes is None else [embeddings, attributes]


def _mapped(embedding, x):
    """The map of a recipe from local or pooled features; without a dimension it starts as x."""
    channels, keeps = x.shape[-1], embedding.dim is None
    if embedding.map is None:
        return x
    if embedding.map == "mlp":
        start = "zeros" if keeps else "glorot_uniform"
        hidden = keras.layers.Dense(channels, "relu", name="embedding_hidden")(x)
        output = keras.layers.Dense(
            embedding.dim or channels,
            use_bias=False,
            kernel_initializer=start,
            name="embedding_output",
        )(hidden)
        return keras.layers.Add()([x, output]) if keeps else output
    kinds = {
        2: keras.layers.Dense,
        3: functools.partial(keras.layers.Conv1D, kernel_size=1),
        4: functools.partial(keras.layers.Conv2D, kernel_size=1),
    }
    layer = kinds[len(x.shape)](
        embedding.dim or channels, use_bias=embedding.whitening, name="embedding"
    )
    output = layer(_unit(x, "pooled") if embedding.whitening else x)
    if keeps:
        layer.kernel.assign(np.eye(channels).reshape(layer.kernel.shape))
    return output


def _unit(x, name):
    return layers.L2Normalization(dtype="float32", name=name)(x)


def _build_losses(recipe: Recipe, num_classes: int) -> dict:
    """The losses of a resolved recipe, as arguments of `MetricLearner`."""
    if recipe.trainer == "classification":
        return {"loss": SoftmaxClassifier(num_classes)}
    if has_branches(recipe):
        losses = {branch: _build_loss(recipe, num_classes) for branch in BRANCHES}
        weights = {name: w for name, w in recipe.loss_weights.items() if name != VIEWS}
        return {"loss": losses, "loss_weights": weights}
    loss, zero_shot = _build_loss(recipe, num_classes), recipe.zero_shot
    if not zero_shot.weight:
        return {"loss": loss}
    attribute_loss = ZeroShotLoss(
        num_classes, zero_shot.embedding_dim, zero_shot.ridge, zero_shot.scale, zero_shot.reduction
    )
    return dict(loss=loss, attribute_loss=attribute_loss, attribute_weight=zero_shot.weight)


def _build_loss(recipe: Recipe, num_classes: int) -> Callable:
    """The loss on embeddings of a resolved recipe, with that of views if it has one."""
    loss, view_loss, data = _class_loss(recipe, num_classes), recipe.view_loss, recipe.data
    if view_loss is None:
        return loss
    of_views = _made(view_loss, num_classes)
    num_labelled = data.views * data.classes_per_batch * data.images_per_class
    return SemiSupervisedLoss(loss, of_views, num_labelled, recipe.loss_weights.get(VIEWS, 1.0))


def _class_loss(recipe, num_classes):
    """The loss of classes, with its miner and its wrapper."""
    filled_in = {}
    if recipe.miner is not None:
        filled_in["miner"] = named("miner", recipe.miner.name)(**recipe.miner.arguments)
    loss = _made(recipe.loss, num_classes, **filled_in)
    wrapper, groups = recipe.loss_wrapper, num_groups(recipe)
    if wrapper is None:
        return loss
    filled_in = {} if groups is None else {"num_groups": groups}
    arguments = _with_objects(wrapper.arguments)
    return named("loss_wrapper", wrapper.name)(loss, **filled_in, **arguments)


def _made(chosen, num_classes, **filled_in):
    takes, arguments = parameters("loss", chosen), _with_objects(chosen.arguments)
    if "num_classes" in takes:
        filled_in["num_classes"] = num_classes
    if "terms" in takes:
        terms = map(class_recipe, arguments["terms"])
        arguments["terms"] = [_made(term, num_classes) for term in terms]
    return named("loss", chosen.name)(**arguments, **filled_in)


def _with_objects(arguments):
    """The arguments of a loss, with the regularisers, distance and reduction that they name."""
    made = dict(arguments)
    for key, section in OBJECTS.items():
        if isinstance(made.get(key), dict):
            chosen = class_recipe(made[key])
            own = {"name": chosen.name} if section == "reduction" else {}
            made[key] = named(section, chosen.name)(**own, **chosen.arguments)
    return made
