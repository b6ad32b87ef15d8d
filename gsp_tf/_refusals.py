"""Messages about invalid arguments."""

import collections.abc
import operator
import re
import types
import typing

from gsp_tf._names import similar

FLOAT32_END = 2.0**128 - 2.0**103
"""The smallest positive number that float32 rounds to infinity."""

_PLAIN = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    types.NoneType: "null",
}
_PLURALS = {bool: "true or false", int: "integers", float: "numbers", str: "texts"}


def readable(message, parser, is_typed=False):
    """Rewrites a message of jsonargparse, with the name of a field, or of an option as typed."""
    actions = {action.dest: action for action in parser._actions}
    if message.startswith('expected "subcommand"'):
        return "A command is missing; gsp-tf --help lists them."
    missing = re.match(r"the following arguments are required: (.*)", message)
    if missing:
        keys = [key.split(".")[-1] for key in missing[1].split(", ")]
        return f"Missing: {', '.join(_name(actions.get(key), key) for key in keys)}."
    unknown = re.match(r"unrecognized arguments: (--[\w.-]+)", message)
    if unknown:
        return f"{unknown[1]} is not an option{similar(unknown[1], _options(unknown[1], parser))}"
    choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
    if choice:
        choices = re.findall(r"[\w-]+", choice[2])
        commands = f" The commands are {', '.join(choices)}."
        return f"{choice[1]!r} is not a command{similar(choice[1], choices)}{commands}"
    refused = re.match(
        r'(?:argument [^:]*: )?Parser key "([\w.-]+)"(?: element \d+)?:\s+(.*)', message, re.DOTALL
    )
    if not refused:
        return " ".join(message.split())
    key, reason = refused.groups()
    if "Unable to load config" in reason and "Line " not in reason:
        return f"{key} is a section; give its fields, such as {_first_field(key, actions)}."
    received = re.split(r"(?:Got|Given) value: |Not of type \w+: ", reason)[1:]
    action = actions.get(key)
    key = _name(action, key) if is_typed else key
    hint = getattr(action, "_typehint", None)
    if not received or hint is None:
        return f"{key}: {' '.join(reason.split())}"
    return f"{key} must be {described(hint, action.default)}, received {_value(received[-1]):.200}."


def described(hint, example=None):
    """Describes the values of a type; `example` illustrates a list."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        has_fractions = any(_base(part) is float for part in arguments)
        parts = [part for part in arguments if not (has_fractions and _base(part) is int)]
        return ", or ".join(dict.fromkeys(described(part, example) for part in parts))
    if origin is dict:
        if any(typing.get_origin(part) is dict for part in typing.get_args(arguments[1])):
            return "a mapping of names to mappings, such as {name: {field: 1}}"
        kind = _plural(arguments[1]) or "numbers, texts or lists"
        return f"a mapping of names to {kind}, such as {{name: 1}}"
    if origin in (list, tuple, collections.abc.Sequence):
        if typing.get_origin(arguments[0]) is dict:
            return "a list of mappings in brackets, such as [{name: 1}]"
        fixed = origin is tuple and arguments[-1] is not ...
        count = f"{len(arguments)} " if fixed else ""
        kind = _plural(arguments[0])
        if not (example and isinstance(example, list | tuple)):
            example = "ab" if arguments[0] is str else (1, 2, 3)[: len(arguments)]
        return f"a list of {count}{kind} in brackets, such as [{', '.join(map(str, example))}]"
    if hasattr(hint, "_restrictions"):
        return f"{_PLAIN[hint._type]} {_range(hint._restrictions)}"
    return _PLAIN.get(hint, f"a {getattr(hint, '__name__', hint)}")


def _base(hint):
    """The plain type of a restricted number; other types as they are."""
    return getattr(hint, "_type", hint)


def _plural(hint):
    """Several values of a type; empty for a type without a word."""
    words = _PLURALS.get(_base(hint), "")
    return f"{words} {_range(hint._restrictions)}" if hasattr(hint, "_restrictions") else words


def _range(restrictions):
    (_, low), (_, high) = restrictions
    if isinstance(high, int) and high > 1:
        return f"from {low:,} to {high:,}"
    words = {operator.gt: "above {}", operator.ge: "of {} or more", operator.le: "at most {}"}
    words[operator.lt] = "below {}"
    parts = [words[matches].format(bound) for matches, bound in restrictions]
    ends = {f"above {-FLOAT32_END}": "", f"below {FLOAT32_END}": "finite in float32"}
    return " and ".join(filter(None, (ends.get(part, part) for part in parts)))


def _value(text):
    """The value at the end of a message of jsonargparse."""
    text = re.sub(r" (does not conform to restriction .*|not an? \w+)$", "", text.strip())
    digits = re.match(r"Exceeds the limit .* value has (\d+) digits", text)
    if digits:
        return f"one of {digits[1]} digits"
    quoted = re.search(r": '(.*?)'?$", text)  # a long text has no end
    kind = re.search(r"argument must be .* not '(\w+)'$", text)
    if kind:
        return "null" if kind[1] == "NoneType" else f"a {kind[1]}"
    return quoted[1] if quoted else text


def _options(unknown, parser):
    """The options of a parser; those of a mapping take any key, so also that of an unknown one."""
    known = dict(parser._option_string_actions)
    _, dot, key = unknown.partition(".")
    for option, action in parser._option_string_actions.items() if dot else ():
        hint = getattr(action, "_typehint", None)
        if any(typing.get_origin(part) is dict for part in (hint, *typing.get_args(hint))):
            known[f"{option}.{key}"] = action
    return known


def _name(action, key):
    """An argument as it is typed."""
    return action.option_strings[-1] if action and action.option_strings else key.upper()


def _first_field(key, actions):
    return next(_name(actions[dest], dest) for dest in actions if dest.startswith(f"{key}."))
