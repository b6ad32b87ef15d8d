"""Check the arguments of the classes that a recipe names, and fill in the others."""

import collections.abc
import inspect
import types
import typing
from argparse import ArgumentError
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonargparse import ArgumentParser

from gsp_tf._names import NAMES, named
from gsp_tf._numbers import (
    Capacity,
    CountOrZero,
    Integer,
    NonNegative,
    Number,
    Seed,
    SizeOrZero,
    checked,
)
from gsp_tf._refusals import described, readable
from gsp_tf.recipe._sections import ClassRecipe, Recipe, similar_or_all

BRANCHES = ("first", "second")
"""Names of the two branches of a head, as in `loss_weights`."""
VIEWS = "views"
"""Name of the loss of views in `loss_weights`."""
OBJECTS = {
    "embedding_regularizer": "regularizer",
    "proxies_regularizer": "regularizer",
    "distance": "distance",
    "reduction": "reduction",
}
"""Arguments of a loss that are a class with a name and arguments, and their section of names."""
_SUCH_AS = {
    "regularizer": "a regulariser, such as {name: lp, weight: 0.01}",
    "distance": "a distance, such as cosine or {name: lp, p: 1.0}",
    "reduction": "a reduction, such as sum or {name: mean, class_weights: [1.0, 2.0]}",
}
_FILLED_IN = {
    "head": {"dim", "embedding_dim", "group_dim"},
    "pooling": {"return_attributes"},
    "loss": {"num_classes", "relation_threshold"},
    "miner": set(),
    "regularizer": set(),
    "distance": set(),
    "reduction": set(),
    "loss_wrapper": {"num_groups", "num_labels"},
    "view_loss": {"num_classes", "relation_threshold"},
    "callbacks": {"append", "log_dir", "restore_best_weights"},
}
_OF_EVERY_SECTION = {"self", "name", "data_format"}
_LARGER = {
    "capacity": Capacity,
    "seed": Seed,
    "super_classes": CountOrZero,
    "warmup_steps": CountOrZero,
}
"""Types of integers that may be larger than a size, by the name of the argument."""
_ANY = bool | int | float | str | None
_NUMBER = CountOrZero | NonNegative
_BY_DEFAULT = {bool: bool, int: _NUMBER, float: _NUMBER, str: int | str, type: str}
"""Types of arguments that a signature without types accepts, by the type of their default."""


def parameters(section: str, chosen: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of the class or function that a section names, by name; none for `None`."""
    if chosen is None:
        return {}
    from gsp_tf._config import parameters_of  # here: it needs Keras, as the class does

    of_class = named(section, chosen.name)
    if isinstance(of_class, type) and hasattr(of_class, "inherited"):
        return parameters_of(of_class)
    function = of_class.__init__ if inspect.isclass(of_class) else of_class
    return inspect.signature(function).parameters


def has_branches(recipe: Recipe) -> bool:
    """Whether the head of a recipe gives embeddings of two branches."""
    return "embedding_dim" in parameters("head", recipe.head)


def num_groups(recipe: Recipe) -> int | None:
    """Number of groups into which the head of a recipe divides the embedding, or `None`."""
    is_grouping = "group_dim" in parameters("head", recipe.head)
    return recipe.head.arguments["num_groups"] if is_grouping else None


def complete_class(section, chosen):
    """A class of a section with every argument, or None."""
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
        loss = complete_class(section, ClassRecipe(term["name"], given))
        completed.append({"name": loss.name, **loss.arguments})
    rest = _complete_plain(section, ClassRecipe(chosen.name, arguments))
    return ClassRecipe(chosen.name, {"terms": completed, **rest.arguments})


def complete_callbacks(given):
    """The callbacks with every argument of each, without those that are null."""
    known = NAMES["callbacks"]
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        hint = similar_or_all(unknown, known)
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
    rest = dict(chosen.arguments)
    known = parameters(section, chosen) if "loss" in section else {}
    takes = [key for key in OBJECTS if key in known and key not in hints]
    given = {key: rest.pop(key, known[key].default) for key in takes}
    objects = {
        key: _complete_object(OBJECTS[key], value, f"{place}.{key}")
        for key, value in given.items()
        if value not in (None, inspect.Parameter.empty)
    }
    if "loss" in section:
        rest = _without_moved(rest, hints, place)
    chosen = ClassRecipe(chosen.name, rest)
    for argument, value in chosen.arguments.items():
        field = f"{place}.{argument}"
        if argument not in hints:
            hint = similar_or_all(argument, hints)
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
    for name in given:
        field = f"{place}.{name}"
        integer = Integer if section == "callbacks" else _LARGER.get(name, SizeOrZero)
        values[field] = checked(values[field], field, bool | integer | Number)
    values = {name: values.get(f"{place}.{name}", defaults.get(name)) for name in hints}
    return ClassRecipe(chosen.name, values | objects)


def _complete_object(section, given, field):
    """The name and every argument of an object that a loss is given, or its name alone."""
    if section != "regularizer" and isinstance(given, str):
        named(section, given)
        return given
    if not (isinstance(given, Mapping) and isinstance(given.get("name"), str)):
        raise ValueError(f"{field} must be {_SUCH_AS[section]}, received {given!r:.80}.")
    arguments = {name: value for name, value in given.items() if name != "name"}
    complete = _complete_plain(section, ClassRecipe(given["name"], arguments), field)
    return {"name": complete.name, **complete.arguments}


def _without_moved(arguments, hints, place):
    """The arguments of a loss without former ones at their default; ValueError for others."""
    from gsp_tf._config import MOVED

    moved = (MOVED.keys() & arguments.keys()) - hints.keys()
    for name in moved:
        default, _, now = MOVED[name]
        if arguments[name] != default:
            raise ValueError(f"{place}.{name} is an argument of an object now: {place}.{now}.")
    return {name: value for name, value in arguments.items() if name not in moved}


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
    parser = ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for key, hint in hints.items():
        parser.add_argument(f"--{place}.{key}", type=hint, default=defaults.get(key))
    return parser, hints, defaults


def _is_plain(hint):
    """Whether a recipe can hold values of a type."""
    if hint in (bool, int, float, str, types.NoneType) or hasattr(hint, "_restrictions"):
        return True
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return True
    containers = (list, tuple, collections.abc.Sequence, typing.Union, types.UnionType)
    return origin in containers and all(part is ... or _is_plain(part) for part in parts)
