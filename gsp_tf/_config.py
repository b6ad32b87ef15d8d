"""Saves layers, losses and miners as the arguments of their constructors."""

import inspect
from collections.abc import Collection
from typing import Any

import keras


def constructor_config(instance: Any) -> dict[str, Any]:
    """The constructor's arguments, read from attributes."""
    parameters = inspect.signature(type(instance)).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    return {name: _serialized(getattr(instance, name)) for name in names}


def spell_out(cls: type, base: type, without: Collection[str] = ()) -> None:
    """Name the arguments of a base class in the signature of a constructor with `**kwargs`."""
    init = vars(cls).get("__init__")
    if init is None:
        return
    signature = inspect.signature(init)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    if len(own) == len(signature.parameters):
        return
    known = {p.name for p in own} | set(without)
    inherited = [
        p if p.kind is p.VAR_KEYWORD else p.replace(kind=p.KEYWORD_ONLY)
        for p in inspect.signature(base.__init__).parameters.values()
        if p.name not in known
    ]
    init.__signature__ = signature.replace(parameters=[*own, *inherited])
    init.__annotations__ = {p.name: p.annotation for p in inherited} | init.__annotations__


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
