"""What the tables for people of other libraries offer exists as it is written."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import gsp_tf

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/migration").glob("*.md"))]
SUBPACKAGES = ("losses", "layers", "training", "data", "evaluation")


def calls():
    """Page and text of every call in the second column of the tables of losses and miners."""
    for page in PAGES:
        for cell in re.findall(r"^\| `[^|]*\| ([^|]*) \|", page.read_text("utf-8"), re.M):
            for code in re.findall(r"`([^`]+\))`", cell):
                if not code.startswith("keras."):
                    yield pytest.param(code, id=f"{page.stem}-{code}")


def found(name):
    """The class or function of that name, with or without its subpackage."""
    for subpackage in SUBPACKAGES:
        scope = getattr(gsp_tf, subpackage)
        name = name.removeprefix(f"{subpackage}.")
        if hasattr(scope, name):
            return getattr(scope, name)
    raise AssertionError(f"{name} is in none of {SUBPACKAGES}.")


@pytest.mark.parametrize("code", list(calls()))
def test_the_replacement_exists_and_takes_these_arguments(code):
    for call in ast.walk(ast.parse(code, mode="eval")):
        if isinstance(call, ast.Call):
            parameters = list(inspect.signature(found(ast.unparse(call.func))).parameters)
            assert len(call.args) <= len(parameters)
            assert {keyword.arg for keyword in call.keywords} <= set(parameters)


def test_every_migration_page_offers_something():
    pages = {param.id.split("-")[0] for param in calls()}
    assert pages == {page.stem for page in PAGES}
