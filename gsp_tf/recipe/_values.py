"""Read the values of a recipe: numbers, strings, lists and dicts, but no classes."""

import re
from typing import Any

import yaml
from jsonargparse import get_loader, set_loader

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
    values = get_loader("yaml")(text)
    nested = [values]
    while nested:
        value = nested.pop()
        if isinstance(value, dict):
            if "class_path" in value:
                raise ValueError(
                    f"A recipe names no classes; received class_path {value['class_path']!r}."
                )
            nested += value.values()
        elif isinstance(value, list):
            nested += value
    return values


_LONG_NUMBER = re.compile(r"[-+]?\d[\da-fA-FxX_:.]{400,}")
"""Numbers that Python takes too long to read or to write, or does not write at all."""


class _Node:
    """A list or mapping during reading."""

    def __init__(self, field, anchor=None, is_mapping=False):
        self.field, self.anchor = field, anchor
        self.size = self.height = 1
        self.keys = set() if is_mapping else None
        self.key = None  # the key of the next value

    def add(self, size, height):
        """Add a value and return the new size of this node."""
        self.size, self.height, self.key = self.size + size, max(self.height, 1 + height), None
        return self.size


def _check_structure(text):
    """Refuse YAML that is not plain, event by event, before any value is built."""
    nodes, anchors = [_Node("")], {}

    def refuse(event, message):
        raise ValueError(f"Line {event.start_mark.line + 1}: {message}")

    def close(event, node):
        if node.anchor:
            anchors[node.anchor] = node.size, node.height
        size = nodes[-1].add(node.size, node.height)
        if size > MAX_VALUES:
            refuse(event, f"a recipe holds at most {MAX_VALUES:,} values.")
        if len(nodes) + node.height > MAX_DEPTH:
            refuse(event, f"{_shown(node.field)} is nested more than {MAX_DEPTH} deep.")

    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        parent = nodes[-1]
        if isinstance(event, yaml.CollectionEndEvent):
            close(event, nodes.pop())
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        if getattr(event, "tag", None) is not None:
            refuse(event, f"a recipe has no tags, received {event.tag}.")
        if parent.keys is not None and parent.key is None:
            if not isinstance(event, yaml.ScalarEvent):
                refuse(event, f"the keys of {_shown(parent.field)} must be names.")
            field = f"{parent.field}.{event.value}".lstrip(".")
            if event.value in parent.keys:
                refuse(event, f"{_shown(field)} is given twice.")
            parent.keys.add(event.value)
            parent.key = field
            continue
        field = parent.key or parent.field
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in {node.anchor for node in nodes}:
                refuse(event, f"{_shown(field)} contains itself, by *{event.anchor}.")
            if event.anchor not in anchors:
                refuse(event, f"{_shown(field)} is *{event.anchor}, which is not defined.")
            node = _Node(field)
            node.size, node.height = anchors[event.anchor]
            close(event, node)
        elif isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and _LONG_NUMBER.fullmatch(event.value):
                refuse(event, f"{_shown(field)} must be a number of at most 400 digits.")
            close(event, _Node(field, event.anchor))
        else:
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            nodes.append(_Node(field, event.anchor, is_mapping))
            if len(nodes) > MAX_DEPTH:
                refuse(event, f"{_shown(field)} is nested more than {MAX_DEPTH} deep.")


def _shown(field):
    """The name of a field in messages."""
    if not field:
        return "the recipe"
    return field if len(field) <= 80 else field[:80] + "..."


set_loader(VALUES, load_values, exceptions=(ValueError, yaml.YAMLError))
