"""Read recipes from files and options, and write them."""

import re
from argparse import ArgumentError
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Any

import yaml
from docstring_parser import parse as parse_docstring
from jsonargparse import ArgumentParser, get_loader, set_loader

from gsp_tf._files import replace_text, several
from gsp_tf._names import NAMES
from gsp_tf._refusals import readable
from gsp_tf._typing import PathLike
from gsp_tf.recipe._resolved import resolved
from gsp_tf.recipe._sections import CLASS_SECTIONS, Recipe, check_known, class_recipe

_Arguments = dict[str, bool | int | float | str | list[int] | list[float] | list[str] | None] | None
_Callbacks = dict[str, _Arguments]


def load_recipe(
    files: PathLike | list[PathLike], overrides: Sequence[str] = (), resolve: bool = True
) -> Recipe:
    """Read a recipe from YAML files and change some of its fields.

    Args:
        files: one YAML file or several. Later files override earlier ones field by field. A file
            that names another class in a section replaces the whole section. Fields that no file
            sets keep their defaults. Without a name in the files, a recipe from several files takes
            its name from all but the first.
        overrides: command-line options, such as `["--pooling.name", "gap"]`, that override files.
        resolve: whether to check the arguments of classes and fill in their defaults, as `resolved`
            does. The recipe of a run is already complete, and can be read without TensorFlow.

    Raises:
        ValueError: if a field is unknown or a value is not accepted; names the file if one is at
            fault.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     data, method = Path(folder) / "data.yaml", Path(folder) / "method.yaml"
        ...     _ = data.write_text("data: {name: cub200, image_size: 227}")
        ...     _ = method.write_text("data: {image_size: 224}")
        ...     recipe = load_recipe([data, method], ["--seed", "3"])
        >>> recipe.data.name, recipe.data.image_size, recipe.seed, recipe.name
        ('cub200', 224, 3, 'method')
    """
    files = list(several(files))
    parser = _parser()
    try:
        given = parser.parse_args(list(overrides), defaults=False).as_dict()
    except ArgumentError as error:
        raise ValueError(readable(str(error), parser)) from error
    return compose(files, given, resolve=resolve)


def compose(
    files: list[PathLike], given: dict, under: dict | None = None, resolve: bool = True
) -> Recipe:
    """Combine recipe files with nested values that override them, and others that they override."""
    # All files but the first one, which is the data set's, name the recipe.
    name = {"name": "-".join(Path(file).stem for file in files[1:])} if len(files) > 1 else {}
    layers = [_DEFAULTS, name, under or {}, *map(_file_values, files)]
    try:
        _check_sections(Recipe, given)
        return _recipe([*layers, given], resolve)
    except ValueError as error:
        raise _located(error, files, layers, resolve) from error


def given_values(files: list[PathLike], given: dict) -> dict:
    """Merge recipe files and nested values that override them, without defaults."""
    return reduce(_merged, [{}, *map(_file_values, files), given])


def _located(error, files, layers, resolve):
    """The error with the name of the file that first causes it, if the files alone cause it."""
    faulty = None
    for count in range(len(files), 0, -1):
        try:
            _recipe(layers[: len(layers) - len(files) + count], resolve)
            break
        except ValueError:
            faulty = files[count - 1]
    return ValueError(str(error) if faulty is None else f"{faulty}: {error}")


def _file_values(file):
    try:
        values = read_values(file)
        _check_sections(Recipe, values)
    except FileNotFoundError as error:
        expected = "expected a recipe, or first of all a folder or a .csv file of photographs"
        raise ValueError(f"{file}: the file does not exist; {expected}") from error
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{file}: {' '.join(str(error).split())}") from error
    return values


def _check_sections(section, given, name="the recipe"):
    """Refuse a section that is not a mapping or has unknown fields."""
    _check_mapping(name, given)
    parts = {part.name: part for part in fields(section)}
    for key, value in given.items():
        field = str(key) if section is Recipe else f"{name}.{key}"
        check_known(key, parts, field, "a field")
        if is_dataclass(parts[key].default_factory):
            _check_sections(parts[key].default_factory, value, field)
        elif key in CLASS_SECTIONS:
            if value is not None or parts[key].default is not None:
                _check_mapping(key, value)
                if not isinstance(value.get("name", ""), str):
                    raise ValueError(f"{key}.name must be a text, received {value['name']!r:.80}.")
        elif key == "callbacks":
            _check_mapping(key, value)
            for callback, arguments in value.items():
                if arguments is not None:
                    _check_mapping(f"callbacks.{callback}", arguments)


def _check_mapping(name, given):
    if not isinstance(given, dict):
        received = "null" if given is None else f"{given!r:.80}"
        raise ValueError(f"{name} must have fields, received {received}.")


def _merged(older, newer, section=Recipe):
    """Merge two layers of a section; values of the newer one win."""
    values = dict(older)
    parts = {part.name: part.default_factory for part in fields(section)}
    for key, value in newer.items():
        old = values.get(key)
        if old is None or value is None:
            values[key] = value
        elif is_dataclass(parts[key]):
            values[key] = _merged(old, value, parts[key])
        elif key in CLASS_SECTIONS and value.get("name", old.get("name")) == old.get("name"):
            values[key] = {**old, **value}
        elif key == "callbacks":
            both = {
                name: {**old[name], **value[name]}
                for name in value
                if old.get(name) and value[name]
            }
            values[key] = {**old, **value, **both}
        else:
            values[key] = value
    return values


def _recipe(layers, resolve):
    values, parser = reduce(_merged, layers), _parser()
    callbacks = values.pop("callbacks", {})
    classes = {name: values.pop(name) for name in CLASS_SECTIONS if name in values}
    for section, given in classes.items():
        if given is not None:
            if "name" not in given:
                raise ValueError(
                    f"{section}.name is missing; there are {', '.join(NAMES[section])}"
                )
            classes[section] = class_recipe(given)
    try:
        # The sections have their own defaults, and the parser takes long to fill them in.
        sections = parser.instantiate(parser.parse_object(values, defaults=False))
    except ArgumentError as error:
        raise ValueError(readable(str(error), parser)) from error
    recipe = Recipe(**vars(sections), **classes, callbacks=callbacks)
    return resolved(recipe) if resolve else recipe


_DEFAULTS = {
    name: {"name": chosen.name} for name in CLASS_SECTIONS if (chosen := getattr(Recipe(), name))
}


@cache
def _parser():
    """A parser for recipes, cached because making one takes longer than reading a file."""
    parser = ArgumentParser(exit_on_error=False, allow_abbrev=False)
    add_recipe_arguments(parser)
    return parser


def add_recipe_arguments(parser: ArgumentParser, skip: Collection[str] = ()) -> None:
    """Add one option for every field of a recipe to a parser, except for the sections to skip."""
    parser.parser_mode = VALUES
    parser.add_class_arguments(Recipe, skip={*CLASS_SECTIONS, "callbacks"})
    for action in parser._actions:
        if getattr(action, "basetype", None) is not None:  # the option of a section
            action.basetype = None  # it would import, and so run, what a text such as os.path names
            action.metavar, action.help = "{FIELD: VALUE, ...}", "Fields of the section."
    helps = {part.arg_name: part.description for part in parse_docstring(Recipe.__doc__).params}
    for section in (name for name in CLASS_SECTIONS if name not in skip):
        names = ", ".join(NAMES[section])
        text = helps[section].rstrip(".")
        text += f"; a name ({names}) and arguments of the class, also one by one"
        parser.add_argument(f"--{section}", type=_Arguments, help=text, metavar="{name: NAME, ...}")
    text = f"{helps['callbacks'].rstrip('.')}; there are {', '.join(NAMES['callbacks'])}"
    parser.add_argument("--callbacks", type=_Callbacks, help=text, metavar="{NAME: {...}, ...}")


def recipe_values(recipe: Recipe) -> dict:
    """A recipe as nested dicts, lists, numbers and strings, as in a recipe file."""
    values = plain_values(asdict(recipe))
    for section in CLASS_SECTIONS:
        if values[section] is not None:
            values[section] = {"name": values[section]["name"], **values[section]["arguments"]}
    return values


def plain_values(value):
    """A value with dicts for mappings and lists for tuples, as YAML has it."""
    if isinstance(value, Mapping):
        return {key: plain_values(part) for key, part in value.items()}
    return [plain_values(part) for part in value] if isinstance(value, list | tuple) else value


def recipe_text(recipe: Recipe) -> str:
    """A recipe with all its fields, as YAML."""
    return values_text(recipe_values(recipe))


def save_recipe(recipe: Recipe, path: PathLike) -> None:
    """Write a recipe as YAML, under a temporary name first.

    Args:
        recipe: The recipe.
        path: File to write.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from gsp_tf.recipe import resolved
        >>> with TemporaryDirectory() as folder:
        ...     save_recipe(resolved(Recipe()), Path(folder) / "recipe.yaml")
        ...     load_recipe(Path(folder) / "recipe.yaml") == resolved(Recipe())
        True
    """
    replace_text(path, recipe_text(recipe))


VALUES = "gsp_tf recipe"
"""The `parser_mode` of jsonargparse for recipes."""

MAX_CHARACTERS = 1_000_000
MAX_VALUES = 100_000
MAX_DEPTH = 50


def load_values(text: str) -> Any:
    """Read YAML with unique keys, and without tags or the key `class_path`.

    Raises `ValueError` if it has more than 1,000,000 characters, 100,000 values or 50 levels, or
    what a recipe does not have, and `yaml.YAMLError` if it is not YAML.
    """
    # jsonargparse would import, and so run, the module that the key class_path names. Aliases may
    # repeat values within the size limits.
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"A recipe has at most {MAX_CHARACTERS:,} characters, not {len(text):,}.")
    _check_structure(text)
    return get_loader("yaml")(text)


def read_values(path: PathLike) -> Any:
    """The values in a YAML file, read as by `load_values`; raises `OSError`, too."""
    try:
        with open(path, encoding="utf-8") as text:
            return load_values(text.read(MAX_CHARACTERS + 1))
    except UnicodeDecodeError as error:
        raise ValueError("the file is not text in UTF-8; expected YAML") from error


def values_text(values: Any) -> str:
    """The YAML from which `load_values` reads these values."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Puts quotes around texts such as 1e5, which are numbers for jsonargparse, not for PyYAML."""


_EXPONENT = re.compile(r"[-+]?\d[\d_]*\.?[\d_]*[eE][-+]?\d+")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))

_LONG_NUMBER = re.compile(r"[-+]?\d[\da-fA-FxX_:.]{400,}")
"""Numbers that Python takes too long to read or to write, or does not write at all."""


def _check_structure(text):
    """Refuse YAML that is not plain, event by event, before any value is built."""
    events = yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    anchors = {}  # size and height of the values that have an anchor, `None` within them

    def refuse(event, message):
        raise ValueError(f"Line {event.start_mark.line + 1}: {message}")

    def check_tag(event):
        if getattr(event, "tag", None) is not None:
            refuse(event, f"a recipe has no tags, received {event.tag}.")

    def field_of(event, within, keys):
        """The field of a key, which becomes one of the keys of its mapping."""
        check_tag(event)
        if not isinstance(event, yaml.ScalarEvent):
            refuse(event, f"the keys of {_shown(within)} must be names.")
        field = f"{within}.{event.value}".lstrip(".")
        if event.value in keys:
            refuse(event, f"{_shown(field)} is given twice.")
        if event.value == "class_path":
            refuse(event, f"a recipe names no classes, received {_shown(field)}.")
        keys.add(event.value)
        return field

    def check(event, field, depth):
        """Check the value that begins with an event: how many values it holds, and how deep."""
        check_tag(event)
        size, height, keys = 1, 1, set()
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                refuse(event, f"{_shown(field)} is *{event.anchor}, which is not defined.")
            if anchors[event.anchor] is None:
                refuse(event, f"{_shown(field)} contains itself, by *{event.anchor}.")
            size, height = anchors[event.anchor]
        is_plain = isinstance(event, yaml.ScalarEvent) and event.implicit[0]
        if is_plain and _LONG_NUMBER.fullmatch(event.value):
            refuse(event, f"{_shown(field)} must be a number of at most 400 digits.")
        if depth + height > MAX_DEPTH:
            refuse(event, f"{_shown(field)} is nested more than {MAX_DEPTH} deep.")
        if isinstance(event, yaml.CollectionStartEvent):
            anchors[event.anchor] = None
            while not isinstance(part := next(events), yaml.CollectionEndEvent):
                of_part = field
                if isinstance(event, yaml.MappingStartEvent):
                    of_part, part = field_of(part, field, keys), next(events)
                of_size, of_height = check(part, of_part, depth + 1)
                size, height = size + of_size, max(height, 1 + of_height)
                if size > MAX_VALUES:
                    refuse(part, f"a recipe holds at most {MAX_VALUES:,} values.")
        anchors[event.anchor] = size, height
        return size, height

    for event in events:
        if isinstance(event, yaml.NodeEvent):
            check(event, "", 1)


def _shown(field):
    """The name of a field in messages."""
    if not field:
        return "the recipe"
    return field if len(field) <= 80 else field[:80] + "..."


set_loader(VALUES, load_values, exceptions=(ValueError, yaml.YAMLError))
