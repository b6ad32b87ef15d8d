"""Check a whole recipe: its classes and whether its parts fit together."""

import collections.abc
import inspect
import types
import typing
from argparse import ArgumentError
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from gsp_tf._names import NAMES, NOT_AUGMENTATIONS, named, names_with
from gsp_tf._numbers import (
    Capacity,
    Count,
    CountOrZero,
    Integer,
    NonNegative,
    Number,
    Seed,
    ShareBelowOne,
    SizeOrZero,
    checked,
)
from gsp_tf._refusals import described, readable
from gsp_tf.recipe._sections import (
    CLASS_SECTIONS,
    ClassRecipe,
    DataRecipe,
    Recipe,
    check_known,
    class_recipe,
)

if TYPE_CHECKING:
    import keras


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


_ONLY_FOR_SOME = {"download": False, "skip_unreadable": False, "min_images_per_class": 2}


def _check_data(recipe):
    data = recipe.data
    takes = parameters("data", data)
    for field, default in _ONLY_FOR_SOME.items():
        if getattr(data, field) != default and field not in takes:
            data.refuse(field, f"{str(default).lower()} with data.name={data.name}")
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
        field = f"training.optimizer_arguments.{name}"
        check_known(name, defaults, field, f"an argument of {training.optimizer}")
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
    loss, miner, wrapper = recipe.loss, recipe.miner, recipe.loss_wrapper
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
    groups = num_groups(recipe)
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
    if "model_checkpoint" in recipe.callbacks and recipe.training.ema_momentum:
        raise ValueError(
            "callbacks.model_checkpoint needs training.ema_momentum=0: it saves the weights "
            "themselves, and the metrics are those of their averages, which model.keras has; "
            f"received {recipe.training.ema_momentum}."
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
        if getattr(recipe, section) is not None:
            recipe.refuse(section, "null with trainer=classification")
    if recipe.embedding.whitening:
        recipe.embedding.refuse("whitening", "false with trainer=classification")
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
    wrapper = recipe.loss_wrapper
    is_wrapped = wrapper is not None and wrapper.name == "self_supervised"
    if is_wrapped or all(_is_two_view(term.name) for term in _terms_of(recipe.loss)):
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
        recipe.refuse("view_loss", accepted)
    if not _takes_views(loss):
        raise ValueError(
            f"loss.name={loss.name} needs the class of each image, and data.classes_per_batch=0 "
            f"draws images without. Take a loss over pairs, such as nt_xent, or {_two_view()}."
        )
    if wrapper is not None and wrapper.name != "self_supervised":
        accepted = "null or self_supervised with data.classes_per_batch=0"
        recipe.refuse("loss_wrapper", accepted)


def check_terms(recipe):
    """Refuse losses that miss the lengths of embeddings, or two views of each image."""
    rows_of_class = recipe.data.views * recipe.data.images_per_class
    for section in ("loss", "loss_wrapper", "view_loss"):
        chosen = getattr(recipe, section)
        for term in () if chosen is None else _terms_of(chosen):
            name, arguments = term.name, term.arguments
            if name in _OF_LENGTHS:
                raise ValueError(
                    f"{section}.name={name} depends on the length of the embeddings, and those of "
                    "a recipe have length 1. Train with gsp_tf.training.MetricLearner and a model "
                    "of your own."
                )
            reduction = arguments.get("reduction")
            if isinstance(reduction, Mapping):
                reduction = reduction["name"]
            if reduction == "none":
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
    """A loss, or each term of a sum of losses."""
    return [class_recipe(term) for term in chosen.arguments.get("terms", ())] or [chosen]


def _takes_views(loss):
    """Whether a loss can have the numbers of images in place of classes."""
    names = [term.name for term in _terms_of(loss)]
    return all(_is_two_view(name) or hasattr(named("loss", name), "pairwise") for name in names)


def _is_two_view(name):
    """Whether a loss of this name compares two views by itself."""
    return hasattr(named("loss", name), "views_loss")


def _two_view():
    """The names of the losses of two views, in words."""
    return names_with("loss", "views_loss").replace(", ", " or ")


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
    "loss_wrapper": {"num_groups", "num_labels"},
    "callbacks": {"append", "log_dir", "restore_best_weights"},
}
_FILLED_IN["view_loss"] = _FILLED_IN["loss"]
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
        loss = complete_class(section, class_recipe(term))
        completed.append({"name": loss.name, **loss.arguments})
    rest = _complete_plain(section, ClassRecipe(chosen.name, arguments))
    return ClassRecipe(chosen.name, {"terms": completed, **rest.arguments})


def complete_callbacks(given):
    """The callbacks with every argument of each, without those that are null."""
    for name in given:
        check_known(name, NAMES["callbacks"], f"callbacks.{name}", "a callback")
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
    for argument, value in rest.items():
        field = f"{place}.{argument}"
        check_known(argument, hints, field, f"an argument of {chosen.name}")
        if value is None and types.NoneType not in typing.get_args(hints[argument]):
            raise ValueError(f"{field} must be {described(hints[argument])}, received null.")
    for name, hint in hints.items():
        if name not in defaults and name not in rest:
            raise ValueError(f"{place}.{name} is missing; {chosen.name} needs {described(hint)}.")
    try:
        given = {f"{place}.{name}": _plain(value) for name, value in rest.items()}
        values = parser.parse_object(given, defaults=False)
    except ArgumentError as error:
        raise ValueError(readable(str(error), parser)) from error
    arguments = {name: defaults.get(name) for name in hints}
    for name in rest:
        field = f"{place}.{name}"
        integer = Integer if section == "callbacks" else _LARGER.get(name, SizeOrZero)
        arguments[name] = checked(values[field], field, bool | integer | Number)
    return ClassRecipe(chosen.name, arguments | objects)


def _complete_object(section, given, field):
    """The name and every argument of an object that a loss is given, or its name alone."""
    if section != "regularizer" and isinstance(given, str):
        named(section, given)
        return given
    if not (isinstance(given, Mapping) and isinstance(given.get("name"), str)):
        raise ValueError(f"{field} must be {_SUCH_AS[section]}, received {given!r:.80}.")
    complete = _complete_plain(section, class_recipe(given), field)
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
        is_filled_in = key in _OF_EVERY_SECTION | _FILLED_IN.get(section, set())
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


_SECTION = "data.augmentation"
_FIXED = {"value_range": (0, 255), "seed": 0}  # seeds come from the images
_NOT_OPTIONS = {*_FIXED, "data_format", "name", "kwargs"}


def augmentation_layers(data: DataRecipe) -> list["keras.layers.Layer"]:
    """The layers of `data.augmentation`, as `gsp_tf.data.TrainingView` takes them.

    Raises `ValueError` if a name or an option is unknown, or Keras does not accept a value.
    """
    return [_layer(f"{_SECTION}[{place}]", part) for place, part in enumerate(data.augmentation)]


def with_options(data: DataRecipe) -> DataRecipe:
    """The section with every option of its layers, checked."""
    layers = augmentation_layers(data)
    parts = [
        {"name": part["name"], **_options(type(layer)), **part}
        for layer, part in zip(layers, data.augmentation, strict=True)
    ]
    return replace(data, augmentation=[{k: _plain(v) for k, v in part.items()} for part in parts])


def _layer(field, part):
    given = dict(part)
    name = given.pop("name", None)
    if name is None:
        raise ValueError(f"{field}.name is missing; there are {', '.join(NAMES[_SECTION])}.")
    reason = NOT_AUGMENTATIONS.get(str(name).replace("_", ""))
    if reason is not None:
        raise ValueError(f"{field}.name={name} is not accepted: {reason}.")
    of_class = named(_SECTION, name)
    options = _options(of_class)
    for option in given:
        check_known(option, options, f"{field}.{option}", f"an option of {name}")
    for option, default in options.items():
        if default is inspect.Parameter.empty and option not in given:
            raise ValueError(f"{field}.{option} is missing; {name} needs it.")
    takes = inspect.signature(of_class).parameters
    fixed = {key: value for key, value in _FIXED.items() if key in takes}
    try:
        layer = of_class(**given, **fixed)
    except (TypeError, ValueError) as error:
        received = ", ".join(f"{key}={value}" for key, value in given.items())
        reason = " ".join(str(error).split())
        raise ValueError(f"{field}: {name} does not accept {received}. Keras: {reason}") from error
    from gsp_tf._keras import check_image_layer  # the command line reads recipes without Keras

    try:
        check_image_layer(layer)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
    return layer


def _options(of_class) -> Mapping[str, Any]:
    """The defaults of the options that a recipe may give a layer."""
    parameters = inspect.signature(of_class).parameters
    return {key: p.default for key, p in parameters.items() if key not in _NOT_OPTIONS}


def _plain(value):
    return list(value) if isinstance(value, tuple) else value
