"""Check a whole recipe: its classes and whether its parts fit together."""

import types
from dataclasses import replace
from pathlib import PurePath

from gsp_tf._names import NAMES, named, names_with
from gsp_tf._numbers import Count, CountOrZero, NonNegative, Number, ShareBelowOne, checked
from gsp_tf._refusals import described
from gsp_tf.recipe._augmentation import with_options
from gsp_tf.recipe._classes import (
    BRANCHES,
    VIEWS,
    complete_callbacks,
    complete_class,
    has_branches,
    num_groups,
    parameters,
)
from gsp_tf.recipe._sections import CLASS_SECTIONS, ClassRecipe, Recipe, similar_or_all

_OF_LENGTHS = {"ada_face", "large_margin_softmax", "sphere_face"}
"""Losses that depend on the length of embeddings, which is 1 after every head."""


def resolved(recipe: Recipe) -> Recipe:
    """The recipe with every argument of its classes, defaults included.

    This imports the classes, and with them TensorFlow. What it returned once it returns again.
    Raises `ValueError` if a name or an argument is unknown, an argument is missing or of the wrong
    type, or parts of the recipe are incompatible.
    """
    if hasattr(recipe, "_is_resolved"):  # not of what `replace` makes of it
        return recipe
    sections = {name: complete_class(name, getattr(recipe, name)) for name in CLASS_SECTIONS}
    sections["callbacks"] = complete_callbacks(recipe.callbacks)
    recipe = replace(recipe, data=with_options(recipe.data), **sections)
    _check_data(recipe)
    check_views(recipe)
    _check_optimizer(recipe.training)
    _check_model(recipe)
    _check_losses(recipe)
    _check_callbacks(recipe)
    if recipe.trainer == "classification":
        _check_classification(recipe)
    object.__setattr__(recipe, "_is_resolved", True)
    return recipe


def _check_data(recipe):
    data = recipe.data
    takes = parameters("data", data)
    if data.download and "download" not in takes:
        data.refuse("download", f"false with data.name={data.name}")
    if data.cache is not None and "skip_unreadable" not in takes:
        data.refuse("cache", f"null with data.name={data.name}, whose images are in memory")
    if data.feature_cache is not None and recipe.backbone.frozen_to is None:
        accepted = "null without backbone.frozen_to, the last layer of the frozen part"
        data.refuse("feature_cache", accepted)


def _check_optimizer(training):
    """Refuse arguments that an optimizer does not take, or that are fields of their own."""
    signatures = {name: parameters("optimizer", ClassRecipe(name)) for name in NAMES["optimizer"]}
    fields = set.intersection(*map(set, signatures.values()))  # learning_rate, weight_decay, ...
    if training.optimizer in ("adam", "adamw"):
        fields.add("beta_2")
    found = signatures[training.optimizer].items()
    defaults = {name: found.default for name, found in found if name not in fields}
    for name, value in training.optimizer_arguments.items():
        field = f"training.optimizer_arguments.{name:.80}"
        if name not in defaults:
            hint = similar_or_all(name, defaults)
            raise ValueError(f"{field} is not an argument of {training.optimizer}{hint}")
        kind = _kind_of(name, defaults[name])
        fits = isinstance(value, int | float if hasattr(kind, "_restrictions") else kind)
        if kind is not types.NoneType and not (fits and isinstance(value, bool) == (kind is bool)):
            raise ValueError(f"{field} must be {described(kind)}, received {value}.")
        checked(value, field, kind)


def _kind_of(name, default):
    """The type of an argument of an optimizer, by its name and its default."""
    if isinstance(default, bool) or not isinstance(default, int | float):
        return type(default)
    if name.endswith("steps"):
        return Count if default else CountOrZero
    if default < 0:
        return Number
    is_share = "beta_" in name or name in ("rho", "momentum")
    return ShareBelowOne if is_share else NonNegative


def _check_model(recipe):
    head, pooling, dim = recipe.head, recipe.pooling, recipe.embedding.dim
    of_head = "head=null" if head is None else f"head.name={head.name}"
    branched, groups = has_branches(recipe), num_groups(recipe)
    weighted = BRANCHES if branched else ()
    weighted += () if recipe.view_loss is None else (VIEWS,)
    if not set(recipe.loss_weights) <= set(weighted):
        with_views = "" if recipe.view_loss is None else " and view_loss"
        accepted = " and ".join(weighted) or "none"
        recipe.refuse("loss_weights", f"of {accepted} with {of_head}{with_views}")
    if recipe.embedding.second_dim is not None and not branched:
        recipe.embedding.refuse("second_dim", f"null with {of_head}, which has no second branch")
    embedding, wrapper = recipe.embedding, recipe.loss_wrapper
    if embedding.dim is None and (
        head is not None or wrapper is not None and wrapper.name == "matryoshka"
    ):
        of = of_head if head is not None else "loss_wrapper.name=matryoshka"
        embedding.refuse("dim", f"a number with {of}")
    if embedding.whitening and (head is not None or recipe.backbone.tokens == "both"):
        embedding.refuse("whitening", "false with a head, and with backbone.tokens=both")
    if embedding.map != "linear" and head is not None:
        embedding.refuse("map", f"linear with {of_head}")
    if groups and dim % groups:
        raise ValueError(
            f"embedding.dim={dim} does not divide into head.num_groups={groups} groups."
        )
    pools = head is None or head.name == "dense_branches"
    section, chosen = ("pooling", pooling) if pools else ("head", head)
    if recipe.training.adapt_batches and not hasattr(named(section, chosen.name), "adapt"):
        accepted = f"0 with {section}.name={chosen.name}, which takes nothing from batches"
        recipe.training.refuse("adapt_batches", accepted)
    has_attributes = head is None and hasattr(named("pooling", pooling.name), "attribute_maps")
    if recipe.backbone.tokens == "both" and head is not None:
        recipe.backbone.refuse("tokens", f"patch or class with {of_head}")
    is_joined = embedding.map is None or embedding.map == "linear" and dim is not None
    if recipe.backbone.tokens == "both" and not is_joined:
        accepted = "patch or class without a linear map to a number of dimensions or map=null"
        recipe.backbone.refuse("tokens", accepted)
    if recipe.zero_shot.weight and not has_attributes:
        raise ValueError(
            "zero_shot.weight > 0 needs the attributes of pooling.name="
            f"{names_with('pooling', 'attribute_maps')}; received pooling.name={pooling.name} "
            f"with {of_head}."
        )


def _check_losses(recipe):
    loss, miner, wrapper, groups = (
        recipe.loss,
        recipe.miner,
        recipe.loss_wrapper,
        num_groups(recipe),
    )
    if miner is not None and "miner" not in parameters("loss", loss):
        raise ValueError(
            f"miner.name={miner.name} chooses pairs, and loss.name={loss.name} is not a loss over "
            "pairs."
        )
    check_terms(recipe)
    if wrapper is not None and wrapper.name == "matryoshka":
        dims, dim = wrapper.arguments["dims"], recipe.embedding.dim
        if has_branches(recipe):
            raise ValueError(
                f"loss_wrapper.name=matryoshka takes one embedding; head.name={recipe.head.name} "
                "gives two, whose prefixes are not one."
            )
        if not dims or dims[-1] != dim:
            raise ValueError(
                f"The last of loss_wrapper.dims must be embedding.dim={dim}, received {dims}."
            )
    if (groups is not None) != ("num_groups" in parameters("loss_wrapper", wrapper)):
        received = "null" if wrapper is None else wrapper.name
        raise ValueError(
            "A head that gives groups needs loss_wrapper.name=grouped, which compares each group "
            f"by itself, and no other head does; received loss_wrapper={received} with "
            f"{'no' if groups is None else groups} groups."
        )


def _check_callbacks(recipe):
    """Refuse callbacks that cannot do their work in the training of a recipe."""
    schedule = recipe.training.schedule.name
    if "reduce_lr_on_plateau" in recipe.callbacks and schedule != "constant":
        raise ValueError(
            "callbacks.reduce_lr_on_plateau needs training.schedule.name=constant, received "
            f"{schedule}."
        )
    if "model_checkpoint" in recipe.callbacks and recipe.data.feature_cache is not None:
        raise ValueError(
            "callbacks.model_checkpoint needs data.feature_cache=null: training from features "
            f"leaves the frozen part out of the model; received {recipe.data.feature_cache}."
        )
    for name, argument in (("csv_logger", "filename"), ("model_checkpoint", "filepath")):
        path = PurePath(recipe.callbacks.get(name, {}).get(argument, ""))
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(
                f"callbacks.{name}.{argument} must be a path within the run folder, received "
                f"{path}."
            )


def _check_classification(recipe):
    """Refuse what a classifier on images of the same classes does not have."""
    if recipe.protocol.name != "fractions":
        accepted = "fractions with trainer=classification, which divides the images of each class"
        recipe.protocol.refuse("name", accepted)
    for section in ("head", "miner", "loss_wrapper"):
        chosen = getattr(recipe, section)
        if chosen is not None:
            recipe.refuse(section, "null with trainer=classification", chosen.name)
    for part, field in ((recipe.zero_shot, "weight"), (recipe.training, "adapt_batches")):
        if getattr(part, field):
            part.refuse(field, "0 with trainer=classification")
    if recipe.backbone.tokens == "both":
        recipe.backbone.refuse("tokens", "patch or class with trainer=classification")
    if recipe.data.collage.grid or recipe.data.name == "cifar_collage":
        recipe.refuse("trainer", "fit or ccp with collages")


def check_views(recipe):
    """Refuse losses that have no use for the views of a recipe, or that miss the classes."""
    data, view_loss = recipe.data, recipe.view_loss
    if data.name == "unlabelled" and recipe.protocol.name != "fractions":
        recipe.protocol.refuse("name", "fractions with data.name=unlabelled, which has no classes")
    if data.views == 1:
        if view_loss is not None:
            data.refuse("views", f"2 with view_loss.name={view_loss.name}")
        return
    if recipe.trainer != "fit":
        recipe.refuse("trainer", "fit with data.views=2")
    if recipe.zero_shot.weight:
        recipe.zero_shot.refuse("weight", "0 with data.views=2, whose loss needs classes alone")
    if view_loss is not None and not _takes_views(view_loss):
        raise ValueError(
            f"view_loss.name={view_loss.name} needs classes, and views of images without a class "
            f"have none. Take a loss over pairs, such as nt_xent, or {_two_view()}."
        )
    if data.classes_per_batch:
        _check_with_classes(recipe)
    else:
        _check_without_classes(recipe)


def _check_with_classes(recipe):
    if _compares_views_alone(recipe):
        accepted = "0 with data.views=2 and a loss of views alone, which has no use for classes"
        recipe.data.refuse("classes_per_batch", accepted)
    if recipe.view_loss is None:
        raise ValueError(
            "data.views=2 needs a loss that compares views: view_loss besides "
            f"loss.name={recipe.loss.name}, or data.classes_per_batch=0 without classes."
        )


def _check_without_classes(recipe):
    loss, wrapper, view_loss = recipe.loss, recipe.loss_wrapper, recipe.view_loss
    if view_loss is not None:
        accepted = "null with data.classes_per_batch=0: loss is the loss of views"
        recipe.refuse("view_loss", accepted, view_loss.name)
    if not _takes_views(loss):
        raise ValueError(
            f"loss.name={loss.name} needs the class of each image, and data.classes_per_batch=0 "
            f"draws images without. Take a loss over pairs, such as nt_xent, or {_two_view()}."
        )
    if wrapper is not None and wrapper.name != "self_supervised":
        accepted = "null or self_supervised with data.classes_per_batch=0"
        recipe.refuse("loss_wrapper", accepted, wrapper.name)


def check_terms(recipe):
    """Refuse losses that miss the lengths of embeddings, or two views of each image."""
    rows_of_class = recipe.data.views * recipe.data.images_per_class
    for section in ("loss", "loss_wrapper", "view_loss"):
        chosen = getattr(recipe, section)
        for name, arguments in () if chosen is None else _terms_of(chosen):
            if name in _OF_LENGTHS:
                raise ValueError(
                    f"{section}.name={name} depends on the length of the embeddings, and those of "
                    "a recipe have length 1. Train with gsp_tf.training.MetricLearner and a model "
                    "of your own."
                )
            if arguments.get("reduction") == "none":
                raise ValueError(f"{section}.reduction=none gives no single number to train with.")
            if name == "vicreg" and not arguments["normalize"]:
                raise ValueError(
                    f"{section}.normalize must be true with {section}.name=vicreg, because the "
                    "embeddings of a recipe have length 1; received false."
                )
            is_two_view = section != "view_loss" and hasattr(named(section, name), "views_loss")
            if is_two_view and recipe.data.classes_per_batch and rows_of_class != 2:
                accepted = f"2 with {section}.name={name}, which compares two views"
                recipe.data.refuse("images_per_class", accepted)


def _terms_of(chosen):
    """The name and the arguments of a loss, or those of each term of a sum."""
    terms = [dict(term) for term in chosen.arguments.get("terms", ())]
    return [(term.pop("name"), term) for term in terms] or [(chosen.name, chosen.arguments)]


def _compares_views_alone(recipe):
    """Whether the loss of a recipe has no use for classes."""
    wrapper = recipe.loss_wrapper
    is_wrapped = wrapper is not None and wrapper.name == "self_supervised"
    return is_wrapped or all(_is_two_view(name) for name, _ in _terms_of(recipe.loss))


def _takes_views(loss):
    """Whether a loss can have the numbers of images in place of classes."""
    names = [name for name, _ in _terms_of(loss)]
    return all(_is_two_view(name) or hasattr(named("loss", name), "pairwise") for name in names)


def _is_two_view(name):
    """Whether a loss of this name compares two views by itself."""
    return hasattr(named("loss", name), "views_loss")


def _two_view():
    """The names of the losses of two views, in words."""
    return names_with("loss", "views_loss").replace(", ", " or ")
