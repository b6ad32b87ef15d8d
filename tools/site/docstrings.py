"""Extension of Griffe: what mkdocstrings has to know about the docstrings here."""

import re

import griffe


class Docstrings(griffe.Extension):
    """Makes `Example:` a section."""

    def on_instance(self, *, obj, **kwargs):
        if obj.docstring:
            text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.M)
            obj.docstring.value = text
