"""From the features of a backbone to embeddings, as a recipe says."""

import keras

from gsp_tf import layers
from gsp_tf.experiment.arguments import complete
from gsp_tf.experiment.poolings import ATTRIBUTED, build_pooling

HEADS = {
    "attentive_grouping": layers.AttentiveGrouping,
    "channel_grouping": layers.ChannelGrouping,
    "coded_residual": layers.CodedResidualBranches,
    "dense_branches": layers.DenseBranches,
    "gate_grouping": layers.GateGrouping,
    "global_local": layers.GlobalLocalEmbedding,
    "linear_grouping": layers.LinearGrouping,
}
GROUPINGS = ("attentive_grouping", "channel_grouping", "gate_grouping", "linear_grouping")
FILLED_IN = {"data_format", "dim", "embedding_dim", "group_dim", "kwargs", "prototypes_initializer"}


def build_head(recipe, features):
    """Embeddings of a backbone's features, and what is trained beside them.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.
        features: symbolic features `(B, H, W, C)` or tokens `(B, n, C)` of the backbone; the list
            of the intermediate and the last ones for head global_local.

    Returns:
        symbolic embeddings `(B, D)` of length 1, or the list of these and the attributes of gsp or
        the embeddings of the second branch of coded_residual or dense_branches.

    Raises:
        ValueError: if an argument is not accepted or the parts do not fit together.

    Example:
        >>> from gsp_tf.recipe import Recipe
        >>> build_head(Recipe(), keras.Input((6, 6, 32))).shape
        (None, 64)
    """
    with_attributes = recipe.zero_shot.weight > 0
    pooling = recipe.pooling.name if recipe.head.name == "pooling" else None
    if with_attributes and pooling not in ATTRIBUTED:
        raise ValueError(
            f"zero_shot.weight > 0 needs the attributes of pooling.name={', '.join(ATTRIBUTED)}; "
            f"received pooling.name={recipe.pooling.name} with head.name={recipe.head.name}."
        )
    if recipe.head.name == "pooling":
        return _pooled(recipe, features, with_attributes)
    if recipe.head.name in GROUPINGS:
        return _unit(_grouped(recipe, features), "normalization")
    if recipe.head.name == "global_local":
        arguments = _arguments(recipe)
        layer = layers.GlobalLocalEmbedding(recipe.embedding.dim, **arguments, name="pooling")
        return _unit(layer(features), "normalization")
    if recipe.head.name == "dense_branches":
        features = build_pooling(recipe.pooling, len(features.shape) == 3, False)(features)
    first, second = _branches(recipe)(features)
    return [_unit(first, "normalization"), _unit(second, "second_normalization")]


def num_groups(recipe):
    """Groups that the head of a recipe divides the embedding into.

    Args:
        recipe: `gsp_tf.recipe.Recipe`.

    Returns:
        int, or `None` for heads without groups.

    Example:
        >>> from gsp_tf.recipe import HeadRecipe, Recipe
        >>> num_groups(Recipe(head=HeadRecipe("linear_grouping", {"num_groups": 4})))
        4
    """
    return _arguments(recipe)["num_groups"] if recipe.head.name in GROUPINGS else None


def _pooled(recipe, x, with_attributes):
    is_set = len(x.shape) == 3
    before = recipe.embedding.position == "before_pooling"
    if before:
        convolution = keras.layers.Conv1D if is_set else keras.layers.Conv2D
        x = convolution(recipe.embedding.dim, 1, use_bias=False, name="embedding")(x)
    x = build_pooling(recipe.pooling, is_set, with_attributes)(x)
    if with_attributes:
        x, attributes = x
    if not before:
        x = keras.layers.Dense(recipe.embedding.dim, use_bias=False, name="embedding")(x)
    elif x.shape[-1] != recipe.embedding.dim:
        raise ValueError(
            f"pooling.name={recipe.pooling.name} makes {x.shape[-1]} values of "
            f"{recipe.embedding.dim}: it needs embedding.position=after_pooling."
        )
    embeddings = _unit(x, "normalization")
    return [embeddings, attributes] if with_attributes else embeddings


def _grouped(recipe, features):
    arguments = _arguments(recipe)
    groups, dim = arguments["num_groups"], recipe.embedding.dim
    if dim % groups:
        raise ValueError(
            f"embedding.dim={dim} does not divide into head.arguments.num_groups={groups} groups."
        )
    layer = HEADS[recipe.head.name](group_dim=dim // groups, **arguments, name="pooling")
    return keras.layers.Flatten()(_unit(layer(features), "group_normalization"))


def _branches(recipe):
    """The layer of both branches."""
    arguments = {"second_dim": 1024, **recipe.head.arguments}
    dims = recipe.embedding.dim, arguments.pop("second_dim")
    arguments = _arguments(recipe, arguments)
    name = "branches" if recipe.head.name == "dense_branches" else "pooling"
    return HEADS[recipe.head.name](embedding_dim=dims, **arguments, name=name)


def _arguments(recipe, given=None):
    given = recipe.head.arguments if given is None else given
    return complete("head.arguments", HEADS[recipe.head.name], given, FILLED_IN)


def _unit(x, name):
    return layers.L2Normalization(dtype="float32", name=name)(x)
