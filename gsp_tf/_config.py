"""Saves layers, losses and miners as the arguments of their constructors."""

import inspect
from collections.abc import Sequence
from typing import Any

import keras


def constructor_config(instance: Any, passed_on: Sequence[str] = ()) -> dict[str, Any]:
    """The constructor's arguments, read from attributes; `passed_on` names those in `**kwargs`."""
    parameters = inspect.signature(type(instance)).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    if len(names) < len(parameters):
        names += passed_on
    values = {name: getattr(instance, name) for name in names}
    return {name: _serialized(value) for name, value in values.items()}


def _serialized(value):
    if isinstance(value, list):
        return [*map(_serialized, value)]
    return keras.saving.serialize_keras_object(value) if hasattr(value, "get_config") else value


def deserialized(config: dict[str, Any]) -> dict[str, Any]:
    """Restores the constructor's arguments from a config."""
    return {name: _restored(value) for name, value in config.items()}


def _restored(value):
    if isinstance(value, list):
        return [*map(_restored, value)]
    return keras.saving.deserialize_keras_object(value) if isinstance(value, dict) else value
