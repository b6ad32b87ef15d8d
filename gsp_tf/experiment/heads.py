"""Build the head of a recipe, from the features of a backbone to embeddings."""

import keras

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
    is_set, dim = len(x.shape) == 3, recipe.embedding.dim
    before = recipe.embedding.position == "before_pooling"
    if before:
        convolution = keras.layers.Conv1D if is_set else keras.layers.Conv2D
        x = convolution(dim, 1, use_bias=False, name="embedding")(x)
    x, attributes = _build_pooling(recipe, is_set)(x), None
    if recipe.zero_shot.weight:
        x, attributes = x
    if not before:
        x = keras.layers.Dense(dim, use_bias=False, name="embedding")(x)
    elif x.shape[-1] != dim:
        raise ValueError(
            f"pooling.name={recipe.pooling.name} makes {x.shape[-1]} values of {dim}: it needs "
            "embedding.position=after_pooling."
        )
    if class_token is not None:
        token = keras.layers.Flatten()(class_token)
        token = keras.layers.Dense(dim, use_bias=False, name="class_embedding")(token)
        x = keras.layers.Add()([x, token])
    embeddings = _unit(x, "normalization")
    return embeddings if attributes is None else [embeddings, attributes]


def _unit(x, name):
    return layers.L2Normalization(dtype="float32", name=name)(x)
