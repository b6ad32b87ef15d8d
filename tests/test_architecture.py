"""The rules of docs/architecture.md hold: directions, faces, privacy, documentation, types."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import gsp_tf

ROOT = Path(__file__).parents[1]
PACKAGES = [name for name in gsp_tf.__all__ if (ROOT / "gsp_tf" / name).is_dir()]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted((ROOT / "gsp_tf").rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text("utf-8")) for name, path in MODULES.items()}
DEFINITIONS = ast.FunctionDef, ast.ClassDef
EXPORTED = [
    (package, name)
    for package in PACKAGES
    for name in importlib.import_module(f"gsp_tf.{package}").__all__
]


def imports(tree: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Modules of gsp_tf that are imported, and names from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gsp_tf."):
            yield node.module, [alias.name for alias in node.names]


def exported(module: str) -> set[str]:
    """Names that a package above a module exports."""
    parts = module.split(".")
    faces = [".".join(parts[:end]) for end in range(2, len(parts) + 1)]
    return {name for package, name in EXPORTED if f"gsp_tf.{package}" in faces}


def test_imports_go_down():
    assert lint_imports(str(ROOT / ".importlinter"), no_cache=True) == 0


def test_packages_are_imported_by_their_faces():
    past = []
    scripts = [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("experiments/**/*.py")]
    others = {str(path): ast.parse(path.read_text("utf-8")) for path in scripts}
    for name, tree in {**TREES, **others}.items():
        own = name.split(".")[1] if name.startswith("gsp_tf.") else None
        for module, _ in imports(tree):
            parts = module.split(".")
            if parts[1] in PACKAGES and parts[1] != own and len(parts) > 2:
                past.append(f"{name} imports {module}")
    assert not past


@pytest.mark.parametrize(
    "name", [name for name in MODULES if set(name.split(".")[1:2]) & set(PACKAGES)]
)
def test_what_is_private_is_named_so(name):
    path, tree = MODULES[name], TREES[name]
    if path.name.startswith("_") or any(part.startswith("_") for part in name.split(".")):
        return
    defined = {node.name for node in tree.body if isinstance(node, DEFINITIONS)}
    used = {
        used
        for other, tree in TREES.items()
        if other != name
        for module, names in imports(tree)
        if module == name
        for used in names
    }
    assert exported(name) & defined, "exports nothing: its name should begin with an underscore"
    public = {name for name in defined if not name.startswith("_")}
    assert not public - exported(name) - used, "used here alone: name them with an underscore"


@pytest.mark.parametrize("name", MODULES)
def test_private_definitions_have_one_line_of_documentation(name):
    public = exported(name)
    long = [
        node.name
        for node in TREES[name].body
        if isinstance(node, DEFINITIONS) and node.name not in public
        for part in ast.walk(node)
        if isinstance(part, DEFINITIONS) and "\n\n" in (ast.get_docstring(part) or "")
    ]
    assert not long


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_of_a_size_that_can_be_read(name):
    assert MODULES[name].read_text("utf-8").count("\n") <= 350


def callables(package: str, name: str) -> Iterator[tuple[str, object]]:
    """The functions whose types a name shows: itself, or its constructor and public methods."""
    value = getattr(importlib.import_module(f"gsp_tf.{package}"), name)
    if not inspect.isclass(value):
        yield name, value
        return
    for key, member in vars(value).items():
        member = getattr(member, "__func__", member)
        if inspect.isfunction(member) and (key == "__init__" or not key.startswith("_")):
            yield f"{name}.{key}", member


INHERITED = {"build", "call", "compute_output_shape", "compute_output_spec", "get_config"}
INHERITED |= {"from_config", "compute_mask", "train_step", "test_step", "compile", "fit"}
INHERITED |= {key for key in vars(importlib.import_module("keras").callbacks.Callback)}


@pytest.mark.parametrize(("package", "name"), EXPORTED, ids=".".join)
def test_exported_names_have_types_and_documentation(package, name):
    value = getattr(importlib.import_module(f"gsp_tf.{package}"), name)
    if not callable(value):
        return
    untyped = []
    for called, function in callables(package, name):
        if called.split(".")[-1] in INHERITED:
            continue
        parameters = list(inspect.signature(function).parameters.values())
        if "." in called and parameters and parameters[0].name in ("self", "cls"):
            parameters = parameters[1:]
        untyped += [
            f"{called}: {parameter.name}"
            for parameter in parameters
            if parameter.annotation is parameter.empty and parameter.kind != parameter.VAR_KEYWORD
        ]
    assert not untyped
    text = value.__doc__ or ""
    assert text.split("\n")[0].endswith("."), "the first line is a sentence"
    assert "Example:" in text
    own = inspect.signature(value.__init__ if inspect.isclass(value) else value).parameters
    assert "Args:" in text or not set(own) - {"self", "args", "kwargs"}
