"""Build the head of a recipe, from the features of a backbone to embeddings."""

import functools

import keras
import numpy as np

from gsp_tf import layers
from gsp_tf._names import named
from gsp_tf._typing import Tensor
from gsp_tf.recipe import Recipe, has_branches, num_groups

_SECOND_DIM = 1024


def build_head(recipe: Recipe, features: Tensor | list[Tensor]) -> Tensor | list[Tensor]:
    """Apply the head of a recipe to the features of a backbone.

    Args:
        recipe: Resolved recipe, as `load_recipe` gives it.
        features: Symbolic features `(B, H, W, C)` or `(B, n, C)`; a list of the intermediate and
            the last features for `head.name=global_local`; of the class token `(B, 1, C)` and the
            patch tokens `(B, n, C)` for `backbone.tokens=both`.

    Returns:
        Embeddings `(B, D)` of length 1. With a zero-shot loss, a list of the embeddings and the
        attributes of GSP. With two branches, a list of the embeddings of both.

    Example:
        >>> from gsp_tf.recipe import Recipe, resolved
        >>> build_head(resolved(Recipe()), keras.Input((7, 7, 32))).shape
        (None, 64)
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
