"""Build the losses of a recipe."""

from collections.abc import Callable

from gsp_tf._names import named
from gsp_tf.losses import SemiSupervisedLoss, SoftmaxClassifier, ZeroShotLoss
from gsp_tf.recipe import (
    BRANCHES,
    OBJECTS,
    VIEWS,
    ClassRecipe,
    Recipe,
    has_branches,
    num_groups,
    parameters,
)


def build_losses(recipe: Recipe, num_classes: int) -> dict:
    """The losses of a resolved recipe, as arguments of `MetricLearner`."""
    if recipe.trainer == "classification":
        return {"loss": SoftmaxClassifier(num_classes)}
    if has_branches(recipe):
        losses = {branch: build_loss(recipe, num_classes) for branch in BRANCHES}
        weights = {name: w for name, w in recipe.loss_weights.items() if name != VIEWS}
        return {"loss": losses, "loss_weights": weights}
    loss, zero_shot = build_loss(recipe, num_classes), recipe.zero_shot
    if not zero_shot.weight:
        return {"loss": loss}
    attribute_loss = ZeroShotLoss(
        num_classes, zero_shot.embedding_dim, zero_shot.ridge, zero_shot.scale, zero_shot.reduction
    )
    return dict(loss=loss, attribute_loss=attribute_loss, attribute_weight=zero_shot.weight)


def build_loss(recipe: Recipe, num_classes: int) -> Callable:
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
        terms = [dict(term) for term in arguments["terms"]]
        arguments["terms"] = [
            _made(ClassRecipe(term.pop("name"), term), num_classes) for term in terms
        ]
    return named("loss", chosen.name)(**arguments, **filled_in)


def _with_objects(arguments):
    """The arguments of a loss, with the regularisers, distance and reduction that they name."""
    made = dict(arguments)
    for key, section in OBJECTS.items():
        if isinstance(made.get(key), dict):
            given = dict(made[key])
            name = given.pop("name")
            own = {"name": name} if section == "reduction" else {}
            made[key] = named(section, name)(**own, **given)
    return made
