"""Arguments of base classes: named in the signatures of losses, or refused by them."""

import inspect
from collections.abc import Collection
from typing import Any

_COVERED = {
    "normalize": ("normalize",),
    "distance": ("distance", "p", "power"),
    "reduction": ("reduction", "class_weights", "thresholds"),
    "relation": ("relation", "relation_threshold"),
}
"""The arguments that an entry of `fixed` covers."""


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


def covered(fixed: Collection[str]) -> list[str]:
    """Names of the arguments that a loss does not take, from those that its formula fixes."""
    return [name for key in fixed for name in _COVERED[key]]


def refuse_fixed(loss: Any, base: type, given: dict[str, Any]) -> None:
    """Raise ValueError if an argument of the base class is given that the formula fixes."""
    parameters = inspect.signature(base.__init__).parameters
    for key in loss.fixed:
        for name in _COVERED[key]:
            if name in given and given[name] != parameters[name].default:
                what = "normalisation" if key == "normalize" else key
                raise ValueError(
                    f"The formula of {type(loss).__name__} fixes its {what}, received "
                    f"{name}={given[name]!r}."
                )


def refuse_unknown(loss: Any, given: dict[str, Any]) -> None:
    """Raise ValueError if a loss is given an argument that only other losses have."""
    for name in ("miner", *covered(_COVERED)):
        if name in given:
            raise ValueError(
                f"{type(loss).__name__} takes no {name}, received {name}={given[name]!r}."
            )


def refuse_inner(wrapper: Any, loss: Any, calls_it: bool = False) -> None:
    """Raise ValueError for a loss whose arguments would be lost within a wrapper."""
    name = type(wrapper).__name__
    if getattr(loss, "reduction", None) == "none":
        raise ValueError(
            f"{name} takes a loss that gives one number, received "
            f"{type(loss).__name__}(reduction='none')."
        )
    for argument in ("embedding_regularizer", "proxies_regularizer"):
        if not calls_it and getattr(loss, argument, None) is not None:
            raise ValueError(
                f"Give {argument} to {name}, and not to the {type(loss).__name__} in it."
            )
