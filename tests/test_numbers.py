"""Tests that every number of a command line or a recipe has a range, and is refused outside it."""

import inspect
import typing
from collections.abc import Sequence

import pytest
from digit_runs import run_command

from gsp_tf import cli
from gsp_tf._names import NAMES
from gsp_tf.commands import COMMANDS
from gsp_tf.recipe import Recipe
from gsp_tf.recipe._resolved import _arguments, complete_callbacks, complete_class
from gsp_tf.recipe._sections import CLASS_SECTIONS, ClassRecipe

NAN, INF = float("nan"), float("inf")
UNCOUNTABLE = (NAN, INF, -INF, 1e39, 10**20)
"""Numbers that nothing has: 1e39 is infinite in float32, and 10**20 too long for 64 bits."""


def numbers_in(hint):
    """The types of numbers within a type: int, float and those with a range."""
    if hint in (int, float) or hasattr(hint, "_restrictions"):
        yield hint
    for part in typing.get_args(hint):
        yield from numbers_in(part)


def own_options():
    """The options of the commands that are numbers or lists of them, without fields of a recipe."""
    found = []
    for command, function in COMMANDS.items():
        parameters = inspect.signature(function).parameters
        for name, hint in typing.get_type_hints(function).items():
            kinds = list(numbers_in(hint)) if name != "return" else []
            if kinds:
                of_place = parameters[name].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD
                option = name.upper() if of_place else f"--{name.replace('_', '-')}"
                found.append((command, option, *kinds))
    return found


@pytest.mark.parametrize(("command", "option", "kind"), own_options())
def test_an_option_refuses_numbers_out_of_range(command, option, kind, monkeypatch, capsys):
    assert hasattr(kind, "_restrictions")
    cli._parsers(command)
    monkeypatch.setitem(COMMANDS, command, lambda **_: pytest.fail("The command started."))
    largest = max(bound for _, bound in kind._restrictions)
    beyond = ["nan", ".nan", "inf", "-.inf", "1e39", "-1", "many", "1" * 5000]
    for value in [*beyond, *([str(10**20)] if largest < 10**20 else [])]:
        typed = [f"{option}={value}"] if option.startswith("-") else ["source", "--", value]
        assert run_command(command, *typed) == 1
        told = capsys.readouterr().err
        assert told.startswith(f"gsp-tf: error: {option} must be a"), told
        assert told.count("\n") == 1 and "received " in told and len(told) < 400


def fields_with_numbers():
    """The fields of a recipe's sections that are numbers or lists or mappings of them."""
    sections, found = [Recipe], []
    for section in sections:
        for name, hint in typing.get_type_hints(section).items():
            if hasattr(hint, "check"):
                sections.append(hint)
            elif name != "section_path" and list(numbers_in(hint)):
                found.append(pytest.param(section, name, hint, id=f"{section.section_path}{name}"))
    return found


@pytest.mark.parametrize(("section", "name", "hint"), fields_with_numbers())
def test_a_field_refuses_numbers_out_of_range(section, name, hint):
    kinds, origin = list(numbers_in(hint)), typing.get_origin(hint)
    negative = [-1] if all(hasattr(kind, "_restrictions") for kind in kinds) else []
    for value in (*UNCOUNTABLE, *negative):
        of_floats = {getattr(kind, "_type", kind) for kind in kinds} == {float}
        largest = max((b for k in kinds for _, b in getattr(k, "_restrictions", ())), default=INF)
        if value == 10**20 and of_floats and largest > value:
            continue
        given = {"one": value} if origin is dict else [value] if origin is list else value
        given = (value,) * 3 if origin is tuple else given
        given = [{"one": value}] if name == "augmentation" else given
        with pytest.raises(ValueError, match="must be .*received") as error:
            section(**{name: given})
        assert str(error.value).startswith(f"{section.section_path}{name}")


CLASSES = [(section, name) for section in (*CLASS_SECTIONS, "callbacks") for name in NAMES[section]]


@pytest.mark.parametrize(("section", "name"), CLASSES)
def test_an_argument_of_a_class_refuses_numbers_out_of_range(section, name):
    _, hints, defaults = _arguments(section, name, section)
    sequences = tuple, Sequence
    needed = {} if name != "weighted_sum" else {"terms": [{"name": "contrastive"}]}
    for key in hints.keys() - defaults.keys():
        value = next((2 if kind is int else 0.5 for kind in numbers_in(hints[key])), "text")
        needed[key] = [value, value] if typing.get_origin(hints[key]) in sequences else value
    for key, hint in hints.items():
        kinds = {getattr(kind, "_type", kind) for kind in numbers_in(hint)}
        for value in UNCOUNTABLE if kinds else ():
            if value == 10**20 and float in kinds:  # a number that need not be whole
                continue
            listed = [value, value] if typing.get_origin(hint) in sequences else value
            given = needed | {key: listed}
            with pytest.raises(ValueError, match=rf"{section}.*{key}\S* must be .*, received"):
                if section == "callbacks":
                    complete_callbacks({name: given})
                else:
                    complete_class(section, ClassRecipe(name, given))
