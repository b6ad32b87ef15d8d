"""The values in a recipe: numbers, texts, lists and dicts, and no classes."""

from jsonargparse import get_loader, set_loader
from yaml import YAMLError

VALUES = "gsp_tf recipe"
"""The `parser_mode` of jsonargparse for recipes."""


def load_values(text):
    """Read YAML in which no dict has the key `class_path`.

    For such a dict jsonargparse imports the module that it names, which runs it.

    Args:
        text: YAML.

    Returns:
        dict, list, str, number, bool or `None`.

    Raises:
        ValueError: if there is such a key.

    Example:
        >>> load_values("{seed: 3, data: {name: glyphs}}")
        {'seed': 3, 'data': {'name': 'glyphs'}}
        >>> load_values("data: {class_path: my_module.Data}")
        Traceback (most recent call last):
            ...
        ValueError: A recipe names no classes; received class_path 'my_module.Data'.
    """
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


set_loader(VALUES, load_values, exceptions=(ValueError, YAMLError))
