"""Tests the rules of docs/architecture.md: directions, faces, documentation, types."""

import ast
import inspect
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import gsp_tf

ROOT = Path(__file__).parents[1]
PACKAGES = [name for name in gsp_tf.__all__ if (ROOT / "gsp_tf" / name).is_dir()]
TREES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
    for path in sorted((ROOT / "gsp_tf").rglob("*.py"))
}


def room_of(module):
    """The package of a module, or an empty name."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in (*PACKAGES, "commands") else ""


def imported(tree):
    """Pairs of a module of gsp_tf and a name that a module imports from it."""
    return {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gsp_tf.")
        for alias in node.names
    }


def test_imports_go_down():
    assert lint_imports(str(ROOT / ".importlinter"), no_cache=True) == 0


def origin_of(module, name):
    """The module that defines a name, or is it; the faces of packages import names from others."""
    face = TREES.get(f"{module}.__init__")
    origins = {} if face is None else {of: whose for whose, of in imported(face)}
    if name in origins:
        return origin_of(origins[name], name)
    return f"{module}.{name}" if f"{module}.{name}" in TREES else module


def test_imports_make_no_circle():
    """Imports in functions and those for types alone count too."""
    graph = {
        name: {origin_of(*each) for each in imported(tree)}
        for name, tree in TREES.items()
        if not name.endswith(".__init__")
    }
    TopologicalSorter(graph).prepare()  # its error names the modules of a circle


def test_packages_are_imported_by_their_faces():
    scripts = [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("experiments/**/*.py")]
    trees = TREES | {path.name: ast.parse(path.read_text("utf-8")) for path in scripts}
    past = [
        f"{name} imports from {module}"
        for name, tree in trees.items()
        for module in sorted({module for module, _ in imported(tree)})
        if room_of(module) in PACKAGES and room_of(module) != room_of(name)
        if module.count(".") > 1
    ]
    assert not past


def untyped(function):
    """Names of arguments without a type; those of a recipe need one."""
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.annotation is parameter.empty
        if parameter.name != "self" and parameter.kind != parameter.VAR_KEYWORD
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_are_documented_and_have_types(package):
    module, wrong = getattr(gsp_tf, package), []
    for name in module.__all__:
        value = getattr(module, name)
        if not callable(value):
            continue
        text = value.__doc__ or ""
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        is_plain = is_error and "__init__" not in vars(value)  # it has no signature
        arguments = set() if is_plain else {*inspect.signature(value).parameters}
        arguments -= {"args", "kwargs"}
        if not text.split("\n")[0].endswith("."):
            wrong.append(f"{name}: the first line is not a sentence")
        if "Example:" not in text:
            wrong.append(f"{name}: no example")
        if arguments and not {"Args:", "Attributes:"} & set(text.split()):
            wrong.append(f"{name}: no Args")
        function = vars(value).get("__init__") if inspect.isclass(value) else value
        if function is not None:
            wrong += [f"{name}: {argument} has no type" for argument in untyped(function)]
    assert not wrong
