"""Saves layers, losses and miners as the arguments of their constructors."""

import inspect
from typing import Any

import keras


def constructor_config(instance: Any, **others: Any) -> dict[str, Any]:
    """The constructor's arguments: those of `others`, and the attributes of the same name."""
    parameters = inspect.signature(type(instance)).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    values = {name: others[name] if name in others else getattr(instance, name) for name in names}
    return {name: _serialized(value) for name, value in values.items()}


def _serialized(value):
    if isinstance(value, list):
        return [*map(_serialized, value)]
    is_object = hasattr(value, "get_config") or callable(value)
    return keras.saving.serialize_keras_object(value) if is_object else value


def deserialized(config: dict[str, Any]) -> dict[str, Any]:
    """Restores the constructor's arguments from a config."""
    return {name: _restored(value) for name, value in config.items()}


def _restored(value):
    if isinstance(value, list):
        return [*map(_restored, value)]
    return keras.saving.deserialize_keras_object(value) if isinstance(value, dict) else value
