"""Griffe extension that prepares the docstrings and packages of gsp_tf for mkdocstrings."""

import re

import griffe


class Docstrings(griffe.Extension):
    """Makes `Example:` a section, and shows functions that have the name of their file."""

    def on_instance(self, *, obj, **kwargs):
        if obj.docstring:
            text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.M)
            obj.docstring.value = text

    def on_package(self, *, pkg, loader, **kwargs):
        loader.resolve_aliases()
        for package in (pkg, *pkg.modules.values()):
            for name in map(str, package.exports or ()):
                file = package.modules.get(name)
                if file and name in file.members:
                    package.members[name] = griffe.Alias(name, file.members[name], parent=package)
