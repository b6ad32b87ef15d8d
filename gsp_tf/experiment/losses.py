"""The loss of a recipe."""

import dataclasses
import inspect

from gsp_tf import losses

LOSSES = {
    "angular": losses.AngularLoss,
    "arc_face": losses.ArcFaceLoss,
    "binomial_deviance": losses.BinomialDevianceLoss,
    "circle": losses.CircleLoss,
    "contrastive": losses.ContrastiveLoss,
    "cos_face": losses.CosFaceLoss,
    "cosine_contrastive": losses.CosineContrastiveLoss,
    "fast_ap": losses.FastAPLoss,
    "hybrid": losses.HybridLoss,
    "lifted_structure": losses.LiftedStructureLoss,
    "margin": losses.MarginLoss,
    "multi_similarity": losses.MultiSimilarityLoss,
    "n_pairs": losses.NPairsLoss,
    "normalized_softmax": losses.NormalizedSoftmaxLoss,
    "proxy_anchor": losses.ProxyAnchorLoss,
    "proxy_nca": losses.ProxyNCALoss,
    "soft_triple": losses.SoftTripleLoss,
    "supervised_contrastive": losses.SupervisedContrastiveLoss,
    "triplet": losses.TripletLoss,
    "triplet_hard": losses.TripletHardLoss,
    "triplet_semi_hard": losses.TripletSemiHardLoss,
}
MINERS = {
    "distance_weighted": losses.DistanceWeightedMiner,
    "hard_negative": losses.HardNegativeMiner,
    "multi_similarity": losses.MultiSimilarityMiner,
    "semi_hard_negative": losses.SemiHardNegativeMiner,
}
WRAPPERS = {
    "cross_batch_memory": losses.CrossBatchMemory,
    "multi_level_distance_regularization": losses.MultiLevelDistanceRegularization,
    "proxy_synthesis": losses.ProxySynthesis,
    "virtual_class": losses.VirtualClass,
}
NOT_FROM_RECIPE = {"self", "name", "num_classes", "miner", "loss", "proxy_loss"}


def build_loss(recipe, num_classes):
    """The loss that a recipe describes.

    Args:
        recipe: `gsp_tf.recipe.LossRecipe`.
        num_classes: number of training classes.

    Returns:
        a loss for `MetricLearner`.

    Raises:
        ValueError: if an argument is unknown, of the wrong type or out of range, or the parts do
            not fit together.

    Example:
        >>> from gsp_tf.recipe import LossRecipe
        >>> build_loss(LossRecipe("triplet", {"margin": 0.2}), num_classes=5).margin
        0.2
    """
    recipe = complete_arguments(recipe)
    loss_class = LOSSES[recipe.name]
    arguments = dict(recipe.arguments)
    if issubclass(loss_class, losses.PairLoss):
        if recipe.miner != "none":
            arguments["miner"] = MINERS[recipe.miner](**recipe.miner_arguments)
    elif recipe.miner != "none":
        raise ValueError(
            f"loss.miner={recipe.miner} chooses pairs, and {recipe.name} is no pair loss."
        )
    else:
        arguments["num_classes"] = num_classes
    loss = loss_class(**arguments)
    if recipe.wrapper == "none":
        return loss
    return WRAPPERS[recipe.wrapper](loss, **recipe.wrapper_arguments)


def complete_arguments(recipe):
    """A copy of the recipe of a loss that names every argument, defaults included.

    Args:
        recipe: `gsp_tf.recipe.LossRecipe`.

    Returns:
        `LossRecipe`.

    Raises:
        ValueError: if an argument is unknown or of the wrong type.

    Example:
        >>> from gsp_tf.recipe import LossRecipe
        >>> complete_arguments(LossRecipe("cosine_contrastive")).arguments
        {'margin': 0.5, 'normalize': True}
    """
    return dataclasses.replace(
        recipe,
        arguments=_complete("loss.arguments", LOSSES[recipe.name], recipe.arguments),
        miner_arguments=_complete(
            "loss.miner_arguments", MINERS.get(recipe.miner), recipe.miner_arguments
        ),
        wrapper_arguments=_complete(
            "loss.wrapper_arguments", WRAPPERS.get(recipe.wrapper), recipe.wrapper_arguments
        ),
    )


def _complete(field, of_class, given):
    parameters = inspect.signature(of_class.__init__).parameters if of_class else {}
    parameters = {
        name: parameter
        for name, parameter in parameters.items()
        if name not in NOT_FROM_RECIPE and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    }
    for name, value in given.items():
        if name not in parameters:
            accepted = ", ".join(parameters) or "none"
            raise ValueError(f"{field} must be among {accepted}, received {name}.")
        default = parameters[name].default
        if isinstance(default, float) and type(value) is int:
            continue
        if isinstance(default, (bool, int, float, str)) and type(value) is not type(default):
            raise ValueError(
                f"{field}.{name} must be of the type of {default!r}, received {value!r}."
            )
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and name not in given
    ]
    if missing:
        raise ValueError(f"{field} must give {', '.join(missing)}.")
    return {name: given.get(name, parameter.default) for name, parameter in parameters.items()}
