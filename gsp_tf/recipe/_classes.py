"""Check the classes that a recipe names, and fill in their arguments."""

import collections.abc
import inspect
import types
import typing
from argparse import ArgumentError
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import PurePath
from typing import Any

from jsonargparse import ArgumentParser

from gsp_tf._names import NAMES, named, names_with, similar
from gsp_tf._refusals import described, readable
from gsp_tf.recipe._augmentation import with_options
from gsp_tf.recipe._sections import CLASS_SECTIONS, ClassRecipe, Recipe
from gsp_tf.recipe._views import check_terms, check_views

BRANCHES = ("first", "second")
"""Names of the two branches of a head, as in `loss_weights`."""
VIEWS = "views"
"""Name of the loss of views in `loss_weights`."""
_FILLED_IN = {
    "head": {"dim", "embedding_dim", "group_dim"},
    "pooling": {"return_attributes"},
    "loss": {"num_classes", "relation_threshold"},
    "miner": set(),
    "loss_wrapper": {"num_groups", "num_labels"},
    "view_loss": {"num_classes", "relation_threshold"},
    "callbacks": {"append", "log_dir", "restore_best_weights"},
}
_OF_EVERY_SECTION = {"self", "name", "data_format"}
_ANY = bool | int | float | str | None
_BY_DEFAULT = {bool: bool, int: int | float, float: int | float, str: int | str, type: str}
"""Types of arguments that a signature without types accepts, by the type of their default."""


def resolved(recipe: Recipe) -> Recipe:
    """The recipe with every argument of its classes, defaults included.

    This imports the classes, and with them TensorFlow.

    Args:
        recipe: The recipe.

    Raises:
        ValueError: if a name or an argument is unknown, an argument is missing or of the wrong
            type, or parts of the recipe are incompatible.

    Example:
        >>> arguments = resolved(Recipe(loss=ClassRecipe("circle", {"margin": 0.2}))).loss.arguments
        >>> {name: arguments[name] for name in ("margin", "scale", "normalize")}
        {'margin': 0.2, 'scale': 80.0, 'normalize': True}
    """
    sections = {name: _complete(name, getattr(recipe, name)) for name in CLASS_SECTIONS}
    sections["callbacks"] = _complete_callbacks(recipe.callbacks)
    recipe = replace(recipe, data=with_options(recipe.data), **sections)
    _check_data(recipe)
    check_views(recipe)
    _check_model(recipe)
    _check_losses(recipe)
    _check_callbacks(recipe)
    if recipe.trainer == "classification":
        _check_classification(recipe)
    return recipe


def parameters(section: str, chosen: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of the class or function that a section of a recipe names, by name.

    Args:
        section: Name of the section.
        chosen: The section, which has a `name`, or `None`, which has no parameters.

    Example:
        >>> "margin" in parameters("loss", ClassRecipe("triplet"))
        True
    """
    if chosen is None:
        return {}
    of_class = named(section, chosen.name)
    function = of_class.__init__ if inspect.isclass(of_class) else of_class
    return inspect.signature(function).parameters


def has_branches(recipe: Recipe) -> bool:
    """Whether the head of a recipe gives embeddings of two branches.

    Args:
        recipe: The recipe.

    Example:
        >>> has_branches(Recipe(head=ClassRecipe("coded_residual")))
        True
    """
    return "embedding_dim" in parameters("head", recipe.head)


def num_groups(recipe: Recipe) -> int | None:
    """Number of groups into which the head of a recipe divides the embedding, or `None`.

    Args:
        recipe: The recipe.

    Example:
        >>> num_groups(Recipe(head=ClassRecipe("linear_grouping", {"num_groups": 4})))
        4
    """
    is_grouping = "group_dim" in parameters("head", recipe.head)
    return recipe.head.arguments["num_groups"] if is_grouping else None


def _complete(section, chosen):
    if chosen is None:
        return None
    if "terms" in parameters(section, chosen):
        return _complete_sum(section, chosen)
    return _complete_plain(section, chosen)


def _complete_sum(section, chosen):
    """A sum of losses with every argument of each."""
    arguments = dict(chosen.arguments)
    terms = arguments.pop("terms", None)
    if not isinstance(terms, list | tuple) or not all(
        isinstance(term, Mapping) and isinstance(term.get("name"), str) for term in terms
    ):
        raise ValueError(
            f"{section}.terms must be a list of losses, such as [{{name: contrastive}}, {{name: "
            f"triplet, margin: 0.2}}], received {terms!r:.80}."
        )
    completed = []
    for term in terms:
        given = {key: value for key, value in term.items() if key != "name"}
        loss = _complete(section, ClassRecipe(term["name"], given))
        completed.append({"name": loss.name, **loss.arguments})
    rest = _complete_plain(section, ClassRecipe(chosen.name, arguments))
    return ClassRecipe(chosen.name, {"terms": completed, **rest.arguments})


def _complete_callbacks(given):
    """The callbacks with every argument of each, without those that are null."""
    known = NAMES["callbacks"]
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        hint = similar(unknown, known)
        hint = f"; there are {', '.join(known)}." if hint == "." else hint
        raise ValueError(f"callbacks.{unknown} is not a callback{hint}")
    return {
        name: _complete_plain(
            "callbacks", ClassRecipe(name, arguments), f"callbacks.{name}"
        ).arguments
        for name, arguments in given.items()
        if arguments is not None
    }


def _complete_plain(section, chosen, place=None):
    """A class with every argument; messages name a field of `place`, by default the section."""
    place = place or section
    parser, hints, defaults = _arguments(section, chosen.name, place)
    for argument, value in chosen.arguments.items():
        field = f"{place}.{argument}"
        if argument not in hints:
            accepted = f"; there are {', '.join(hints)}." if hints else ", which takes none."
            hint = similar(argument, hints)
            hint = accepted if hint == "." else hint
            raise ValueError(f"{field:.80} is not an argument of {chosen.name}{hint}")
        if value is None and types.NoneType not in typing.get_args(hints[argument]):
            raise ValueError(f"{field} must be {described(hints[argument])}, received null.")
    for argument, hint in hints.items():
        if argument not in defaults and argument not in chosen.arguments:
            raise ValueError(
                f"{place}.{argument} is missing; {chosen.name} needs {described(hint)}."
            )
    given = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in chosen.arguments.items()
    }
    try:
        named_given = {f"{place}.{name}": value for name, value in given.items()}
        values = parser.parse_object(named_given, defaults=False)
    except ArgumentError as error:
        raise ValueError(readable(str(error), parser)) from error
    values = {name: values.get(f"{place}.{name}", defaults.get(name)) for name in hints}
    return ClassRecipe(chosen.name, values)


@cache
def _arguments(section, name, place):
    """The parser, types and defaults of the arguments that a recipe may give a class."""
    of_class = named(section, name)
    hints, defaults = {}, {}
    types_of_all = typing.get_type_hints(of_class.__init__)
    for key, parameter in parameters(section, ClassRecipe(name)).items():
        is_filled_in = key in _OF_EVERY_SECTION | _FILLED_IN[section]
        hint = types_of_all.get(key)
        if section == "callbacks" and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            hint = hint or _BY_DEFAULT.get(type(parameter.default), _ANY)  # Keras has no types
        if not is_filled_in and _is_plain(hint):
            hints[key] = hint
            if parameter.default is not parameter.empty:
                defaults[key] = parameter.default
    parser = ArgumentParser(exit_on_error=False)
    for key, hint in hints.items():
        parser.add_argument(f"--{place}.{key}", type=hint, default=defaults.get(key))
    return parser, hints, defaults


def _is_plain(hint):
    """Whether a recipe can hold values of a type."""
    if hint in (bool, int, float, str, types.NoneType):
        return True
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return True
    containers = (list, tuple, collections.abc.Sequence, typing.Union, types.UnionType)
    return origin in containers and all(part is ... or _is_plain(part) for part in parts)


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
    if recipe.backbone.tokens == "both" and (dim is None or embedding.map == "mlp"):
        accepted = "patch or class without a linear map to a number of dimensions"
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
