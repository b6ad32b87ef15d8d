"""Arguments of the constructors of layers, losses and miners: saved, and guarded."""

import functools
import inspect
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
from keras import ops

from gsp_tf._backend import is_traced


def register(face: dict[str, Any]) -> None:
    """Lets Keras find the classes with arguments that a package imports by name in saved files."""
    for value in list(face.values()):
        if isinstance(value, type) and hasattr(value, "get_config"):
            keras.saving.register_keras_serializable("gsp_tf")(value)


def constructor_config(instance: Any) -> dict[str, Any]:
    """The constructor's arguments: the attributes of the same name, or of that in `kept_as`."""
    kept_as = getattr(instance, "kept_as", {})
    names = parameters_of(type(instance))
    return {name: _serialized(getattr(instance, kept_as.get(name, name))) for name in names}


@functools.cache
def parameters_of(cls: type) -> dict[str, inspect.Parameter]:
    """Parameters of a constructor by name, `inherited` ones too, which `**kwargs` passes on."""
    parameters = dict(inspect.signature(cls).parameters)
    kinds = {p.kind for p in parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        for name in getattr(cls, "inherited", ()):
            parameters.setdefault(name, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY))
    return {name: p for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD}


def _serialized(value):
    if isinstance(value, (list, tuple)):
        return type(value)(map(_serialized, value))
    if isinstance(value, keras.Variable):
        return ops.convert_to_numpy(value).item()
    is_object = hasattr(value, "get_config") or callable(value)
    return keras.saving.serialize_keras_object(value) if is_object else value


MOVED = {
    "p": (2.0, "distance=LpDistance(p, power)", "distance: {name: lp, p: 1.0}"),
    "power": (1.0, "distance=LpDistance(p, power)", "distance: {name: lp, power: 2.0}"),
    "class_weights": (
        None,
        "reduction=Reduction(name, class_weights)",
        "reduction: {name: mean, class_weights: [1.0, 2.0]}",
    ),
    "thresholds": (
        None,
        "reduction=Reduction(name, thresholds=thresholds)",
        "reduction: {name: mean, thresholds: [0.1, 0.8]}",
    ),
}
"""Former arguments of losses: their default, and what takes their place, in Python and YAML."""


def _restored(value):
    if isinstance(value, list):
        return [*map(_restored, value)]
    return keras.saving.deserialize_keras_object(value) if isinstance(value, dict) else value


class Guarded:
    """Mixin of losses, miners and regularisers: saved, and kept by a traced step."""

    unscheduled: tuple[str, ...] = ()
    """Arguments of a float type that only the constructor or the structure of a step reads."""

    def __setattr__(self, name: str, value: Any) -> None:
        # A first value, of a weight with an argument's name, is not a change.
        was_read = "_was_traced" in vars(self) and name in parameters_of(type(self))
        if name in vars(self) and (was_read or name in self.unscheduled):
            kind = type(self).__name__
            reason = "a training step was traced with it" if was_read else "it was read already"
            raise ValueError(
                f"{name} of {kind} cannot change, because {reason}; received {value!r}. Make a new "
                f"{kind}, or change a number while training with gsp_tf.training.Schedule."
            )
        super().__setattr__(name, value)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return constructor_config(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Guarded":
        """An object of the arguments in `get_config`, without former ones at their default."""
        moved = (MOVED.keys() & config.keys()) - parameters_of(cls).keys()
        for name in moved:
            default, now, _ = MOVED[name]
            if config[name] != default:
                raise ValueError(
                    f"The loss was saved with {name}={config[name]!r}, which is {now} now: make "
                    "the loss again, and load the weights alone."
                )
        return cls(**{name: _restored(config[name]) for name in config if name not in moved})

    def keep_if_traced(self, tensor: Any) -> None:
        """From a trace with this tensor on, refuse to change the arguments, those within too."""
        if is_traced(tensor):
            for part, _ in parts_of(self):
                vars(part)["_was_traced"] = True


class Number(NamedTuple):
    """A number among the arguments of an object: an attribute, or an entry of one."""

    owner: Any
    name: str
    entry: int | str | None = None

    def get(self) -> Any:
        """The number, or the variable in its place."""
        value = getattr(self.owner, self.name)
        return value if self.entry is None else value[self.entry]

    def put(self, number: Any) -> None:
        """Set the number past every guard, and without Keras tracking it."""
        if self.entry is not None:
            old = getattr(self.owner, self.name)
            items = dict(old) if hasattr(old, "keys") else [*old]
            items[self.entry] = number
            number = type(old)(items)
        vars(self.owner)[self.name] = number

    def check(self, number: float) -> None:
        """Raise ValueError where the constructor of a guarded object does, given the number."""
        config = self.owner.get_config()
        if self.entry is not None:
            entries = [*config[self.name]]
            entries[self.entry] = number
            number = entries
        type(self.owner).from_config({**config, self.name: number})


def parts_of(guarded: Guarded) -> Iterator[tuple[Guarded, str]]:
    """A guarded object and all within it, with their paths from it."""
    yield guarded, ""
    for name in vars(guarded).keys() & parameters_of(type(guarded)).keys():
        value = getattr(guarded, name)
        is_list = isinstance(value, (list, tuple))
        items = [(f"{name}.{i}", x) for i, x in enumerate(value)] if is_list else [(name, value)]
        for path, item in items:
            if isinstance(item, Guarded):
                for part, rest in parts_of(item):
                    yield part, f"{path}.{rest}".rstrip(".")


def numbers_of(guarded: Guarded) -> dict[str, Number]:
    """The numbers that may change while training, by their paths."""
    numbers = {}
    for part, path in parts_of(guarded):
        for name, parameter in parameters_of(type(part)).items():
            if "float" not in str(parameter.annotation) or name in part.unscheduled:
                continue
            value = vars(part).get(name)
            is_list = isinstance(value, (list, tuple))
            entries = range(len(value)) if is_list else [None]
            for entry in entries:
                number = Number(part, name, entry)
                if _is_number(value if entry is None else value[entry]):
                    full = ".".join(str(x) for x in (path, name, entry) if x not in ("", None))
                    numbers[full] = number
    return numbers


def _is_number(value):
    return isinstance(value, (int, float, keras.Variable)) and not isinstance(value, bool)


def is_zero(number: Any) -> bool:
    """Whether a number is 0 for good; one that a `Schedule` changes is not."""
    return not isinstance(number, keras.Variable) and number == 0


def elementary(function: str, number: Any) -> Any:
    """A function of the name in `math` and `keras.ops`, of a number or one that changes."""
    module = math if isinstance(number, (int, float)) else ops
    return getattr(module, function)(number)
