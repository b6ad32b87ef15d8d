"""The loss of a recipe."""

import dataclasses
import inspect

from gsp_tf import losses
from gsp_tf.experiment.arguments import complete

LOSSES = {
    "angular": losses.AngularLoss,
    "arc_face": losses.ArcFaceLoss,
    "binomial_deviance": losses.BinomialDevianceLoss,
    "circle": losses.CircleLoss,
    "class_margin": losses.ClassMarginLoss,
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
    "grouped": losses.GroupedLoss,
    "multi_level_distance_regularization": losses.MultiLevelDistanceRegularization,
    "proxy_synthesis": losses.ProxySynthesis,
    "virtual_class": losses.VirtualClass,
}
FILLED_IN = {
    "name",
    "num_classes",
    "num_groups",
    "miner",
    "loss",
    "proxy_loss",
    "diversity",
}


def build_loss(recipe, num_classes, num_groups=None):
    """The loss that a recipe describes.

    Args:
        recipe: `gsp_tf.recipe.LossRecipe`.
        num_classes: number of training classes.
        num_groups: groups of the embedding, for wrapper grouped; `None` if it has none.

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
    if (num_groups is not None) != (recipe.wrapper == "grouped"):
        raise ValueError(
            "A head that gives groups needs loss.wrapper=grouped, which compares each group by "
            f"itself, and no other head does; received loss.wrapper={recipe.wrapper} with "
            f"{'no' if num_groups is None else num_groups} groups."
        )
    recipe = complete_arguments(recipe)
    loss_class = LOSSES[recipe.name]
    takes = inspect.signature(loss_class.__init__).parameters
    arguments = dict(recipe.arguments)
    if "num_classes" in takes:
        arguments["num_classes"] = num_classes
    if recipe.miner != "none":
        if "miner" not in takes:
            raise ValueError(
                f"loss.miner={recipe.miner} chooses pairs, and {recipe.name} is no pair loss."
            )
        arguments["miner"] = MINERS[recipe.miner](**recipe.miner_arguments)
    loss = loss_class(**arguments)
    if recipe.wrapper == "none":
        return loss
    groups = {} if num_groups is None else {"num_groups": num_groups}
    return WRAPPERS[recipe.wrapper](loss, **groups, **recipe.wrapper_arguments)


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
        arguments=complete("loss.arguments", LOSSES[recipe.name], recipe.arguments, FILLED_IN),
        miner_arguments=complete(
            "loss.miner_arguments", MINERS.get(recipe.miner), recipe.miner_arguments, FILLED_IN
        ),
        wrapper_arguments=complete(
            "loss.wrapper_arguments",
            WRAPPERS.get(recipe.wrapper),
            recipe.wrapper_arguments,
            FILLED_IN,
        ),
    )
