"""The fields of a recipe that a search changes, and the values that it tries."""

import functools
import math
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import yaml

from gsp_tf._names import flattened, nested, similar
from gsp_tf.recipe import Recipe, compose, load_values, read_values, recipe_values

if TYPE_CHECKING:
    import optuna

_DECIDE_THE_IMAGES = (
    "data.name",
    "data.path",
    "data.channels",
    "data.collage",
    "data.canvas",
    "data.min_images_per_class",
    "data.split_fractions",
    "data.split_seed",
    "protocol",
    "trainer",
)
_DECIDE_THE_VIEWS = ("data.horizontal_flip", "data.min_crop_area", "data.augmentation")
_MAPPINGS = (
    "loss_weights",
    "training.learning_rate_multipliers",
    "training.optimizer_arguments",
)
"""Fields of free names, of which a search may change one and keep the others."""
_SYNTAX = (
    "expected a list of choices, such as [triplet, contrastive], or a range, such as "
    "{low: 1e-5, high: 1e-2, log: true} or {low: 16, high: 128, step: 16}"
)


@dataclass(frozen=True)
class _Range:
    """Numbers from `low` to `high`, both included; integers if both are."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self):
        numbers = [self.low, self.high, *([] if self.step is None else [self.step])]
        if any(isinstance(x, bool) or not isinstance(x, int | float) for x in numbers):
            raise ValueError("low, high and step must be numbers")
        if not all(map(math.isfinite, numbers)) or not self.low < self.high:
            raise ValueError("low must be below high, and both finite")
        if not isinstance(self.log, bool) or (self.log and self.low <= 0):
            raise ValueError("log must be true or false, and a range with log above 0")
        if self.step is not None and (self.log or not 0 < self.step <= self.high - self.low):
            raise ValueError("step must be above 0, within the range, and without log")

    @property
    def examples(self):
        """The ends and a number between them, as uneven as numbers between them may be."""
        step = self.step or (1 if self._is_of_integers else (self.high - self.low) / math.pi)
        return [self.low, self.high, self.low + step]

    @property
    def _is_of_integers(self):
        return all(isinstance(x, int) for x in (self.low, self.high, self.step or 1))

    def suggest(self, trial, name):
        """The value of a trial of optuna."""
        if self._is_of_integers:
            step = self.step or 1
            return trial.suggest_int(name, self.low, self.high, log=self.log, step=step)
        return trial.suggest_float(name, self.low, self.high, log=self.log, step=self.step)

    def value(self, parameter):
        """The value that a parameter of optuna stands for."""
        return parameter


@dataclass(frozen=True)
class _Choices:
    """Values of any kind; those that optuna cannot hold have a text in its study.

    Optuna and Python tell neither 1 from 1.0 nor from true.
    """

    examples: Sequence[Any]

    def __post_init__(self):
        if len(set(self._labels)) != len(self.examples) or not self.examples:
            raise ValueError("the choices must be different values, at least one")

    @property
    def _labels(self):
        return [_label(value) for value in self.examples]

    def suggest(self, trial, name):
        """The value of a trial of optuna."""
        return self.value(trial.suggest_categorical(name, self._labels))

    def value(self, parameter):
        """The value that a parameter of optuna stands for."""
        return self.examples[self._labels.index(parameter)]


def _label(value):
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf).strip()


class TuningSpace:
    """The fields of a recipe to search, each with a range or a list of choices.

    A range is a mapping with `low` and `high`, which are both included, and either `log: true` or a
    `step`, whose last multiple may be below `high`. It gives integers if `low` and `high` are
    integers. A choice may be any value of the field, or a mapping for a whole section, such as
    `{name: triplet, margin: 0.2}`.

    Args:
        fields: ranges and choices by the full name of the field.

    Raises:
        ValueError: if a range or a list cannot be used, a field appears twice, or a field decides
            which images the trials are judged on.

    Example:
        >>> space = TuningSpace({"embedding.dim": [32, 64], "loss.margin": {"low": 0.1, "high": 1}})
        >>> space.names
        ['embedding.dim', 'loss.margin']
    """

    def __init__(self, fields: Mapping[str, Any]):
        if not isinstance(fields, Mapping) or not fields:
            raise ValueError(f"The search has no field; {_SYNTAX}, for each field.")
        self.fields = {str(name): value for name, value in fields.items()}
        self._parts = {name: _parsed(name, value) for name, value in self.fields.items()}
        for name in self.fields:
            others = [other for other in self.fields if other != name and _overlap(name, other)]
            if others:
                raise ValueError(f"{name} and {others[0]} overlap: search one of them.")
        self._refuse(_DECIDE_THE_IMAGES)

    def _refuse(self, deciding):
        for name in self.fields:
            if any(_overlap(name, fixed) for fixed in deciding):
                raise ValueError(
                    f"{name} cannot be searched: it decides on which images trials are judged."
                )

    @classmethod
    def read(cls, sources: Sequence[str]) -> Self:
        """Read a search from YAML files and YAML texts, such as those of `gsp-tf tune --search`.

        Args:
            sources: paths of files, and texts such as "embedding.dim: [32, 64]"; a field of a later
                one replaces that of an earlier one.

        Raises:
            ValueError: as the constructor, or if a source is neither a file nor YAML.
        """
        fields = {}
        for source in sources:
            try:
                found = read_values(source) if os.path.isfile(source) else load_values(source)
            except (OSError, ValueError, yaml.YAMLError) as error:
                raise ValueError(f"{source}: {' '.join(str(error).split())}") from error
            if not isinstance(found, dict):
                raise ValueError(
                    f"{source!r:.200} is neither a file nor a search such as 'embedding.dim: "
                    "[32, 64]'."
                )
            fields |= found
        return cls(fields)

    @property
    def names(self) -> list[str]:
        """The full names of the fields."""
        return list(self._parts)

    def suggest(self, trial: "optuna.Trial") -> dict[str, Any]:
        """The values of the fields in a trial of optuna, those that it already has included."""
        return {name: part.suggest(trial, name) for name, part in self._parts.items()}

    def values(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the fields that parameters of optuna stand for."""
        return {name: self._parts[name].value(value) for name, value in parameters.items()}

    def recipe(self, base: Recipe, values: Mapping[str, Any]) -> Recipe:
        """A recipe with other values of the searched fields.

        Args:
            base: the recipe to change.
            values: values by the full name of the field.

        Raises:
            ValueError: if the recipe does not take them, or has no epochs by which to judge them.
        """
        present, given = recipe_values(base), dict(values)
        for field in _MAPPINGS:
            names = [name for name in values if name.startswith(f"{field}.")]
            if names:
                entries = {name.removeprefix(f"{field}."): given.pop(name) for name in names}
                given[field] = _entries(present, field) | entries
        found = compose([], nested(given), under=present)
        if not found.training.epochs:
            raise ValueError(
                "training.epochs must be 1 or more in a search, which judges trials by their "
                "epochs; received 0."
            )
        return found

    def fitted(self, base: Recipe) -> Self:
        """The same search for a recipe: whole numbers become fractions where it has fractions.

        Args:
            base: the recipe to change.

        Raises:
            ValueError: if the recipe does not take an end of a range, a number between them, or a
                choice; each is tried with the first value of the other fields. Also if the recipe
                has no classes, and a field decides on the views that trials are judged on.
        """
        if base.data.name == "unlabelled":  # whose views are what trials have to find
            self._refuse(_DECIDE_THE_VIEWS)
        values, fields = recipe_values(base), dict(self.fields)
        present = flattened(values)
        for field in _MAPPINGS:
            present |= {f"{field}.{name}": x for name, x in _entries(values, field).items()}
        for name, part in self._parts.items():
            if isinstance(part, _Range) and isinstance(present.get(name), float):
                fields[name] = {**fields[name], "low": float(part.low), "high": float(part.high)}
        fitted = type(self)(fields)
        first = {name: part.examples[0] for name, part in fitted._parts.items()}
        for name, part in fitted._parts.items():
            for value in part.examples:
                try:
                    self.recipe(base, {**first, name: value})
                except ValueError as error:
                    raise ValueError(
                        f"The search of {name} cannot try {value!r}: {error}"
                    ) from error
        return fitted


def _entries(values, field):
    """The mapping that a field of a recipe is."""
    return functools.reduce(operator.getitem, field.split("."), values)


def _overlap(name, other):
    """Whether one of two fields is the other, or a part of it."""
    return f"{name}.".startswith(f"{other}.") or f"{other}.".startswith(f"{name}.")


def _parsed(name, value):
    """The range or the choices of a field."""
    try:
        if isinstance(value, list | tuple):
            return _Choices(tuple(value))
        if not isinstance(value, Mapping):
            raise ValueError(f"{_SYNTAX}; received {value!r:.80}")
        known = ("low", "high", "log", "step")
        unknown = next((key for key in value if key not in known), None)
        if unknown is not None:
            raise ValueError(f"{unknown} is not a part of a range{similar(unknown, known)}")
        if not {"low", "high"} <= set(value):
            raise ValueError(f"{_SYNTAX}; received {dict(value)}")
        return _Range(**value)
    except ValueError as error:
        raise ValueError(f"The search of {name}: {str(error).rstrip('.')}.") from error
