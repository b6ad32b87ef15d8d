"""The image layers of Keras that a recipe names, with their options."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gsp_tf._names import NAMES, NOT_AUGMENTATIONS, named
from gsp_tf.recipe._sections import DataRecipe, similar_or_all

if TYPE_CHECKING:
    import keras

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
        if option not in options:
            hint = similar_or_all(option, options)
            raise ValueError(f"{field}.{option:.80} is not an option of {name}{hint}")
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
