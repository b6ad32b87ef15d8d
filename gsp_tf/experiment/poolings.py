"""The pooling layer of a recipe."""

import keras

from gsp_tf import layers
from gsp_tf.experiment.arguments import complete

POOLINGS = {
    "average_max": layers.AverageMaxPooling,
    "cbam": layers.CBAMPooling,
    "crow": layers.CrowPooling,
    "delf": layers.DelfPooling,
    "generalized_max": layers.GeneralizedMaxPooling,
    "generalized_mean": layers.GeneralizedMeanPooling,
    "gsop": layers.GSoPPooling,
    "gsp": layers.GeneralizedSumPooling,
    "gsp_max": layers.GeneralizedSumMaxPooling,
    "gsp_mean": layers.GeneralizedSumMeanPooling,
    "net_vlad": layers.NetVLAD,
    "optimal_transport": layers.OptimalTransportPooling,
    "smk": layers.SMKPooling,
    "solar": layers.SolarPooling,
    "weldon": layers.WeldonPooling,
}
OF_KERAS = {
    "gap": (keras.layers.GlobalAveragePooling1D, keras.layers.GlobalAveragePooling2D),
    "max": (keras.layers.GlobalMaxPooling1D, keras.layers.GlobalMaxPooling2D),
}
ATTRIBUTED = ("gsp", "gsp_max", "gsp_mean")
FILLED_IN = {"data_format", "kwargs", "prototypes_initializer", "centers_initializer"}


def build_pooling(recipe, is_set, return_attributes=False):
    """The pooling layer of a recipe, named "pooling".

    Args:
        recipe: `gsp_tf.recipe.PoolingRecipe`.
        is_set: whether it pools tokens `(B, n, C)` rather than maps `(B, H, W, C)`.
        return_attributes: whether it returns the attributes too, which gsp has.

    Returns:
        Keras layer.

    Raises:
        ValueError: if an argument is unknown, of the wrong type or out of range.

    Example:
        >>> from gsp_tf.recipe import PoolingRecipe
        >>> build_pooling(PoolingRecipe("generalized_mean", {"p": 4.0}), is_set=False).p
        4.0
    """
    if recipe.name in OF_KERAS:
        complete("pooling.arguments", None, recipe.arguments, ())
        return OF_KERAS[recipe.name][not is_set](name="pooling")
    if recipe.name not in ATTRIBUTED:
        of_class = POOLINGS[recipe.name]
        arguments = complete("pooling.arguments", of_class, recipe.arguments, FILLED_IN)
        return of_class(**arguments, name="pooling")
    return POOLINGS[recipe.name](
        num_prototypes=recipe.num_prototypes,
        transport_ratio=recipe.transport_ratio,
        entropy_smoothing=recipe.entropy_smoothing,
        solver=recipe.solver,
        return_attributes=return_attributes,
        name="pooling",
        **recipe.arguments,
    )
