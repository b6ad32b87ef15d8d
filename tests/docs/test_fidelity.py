"""docs/fidelity.md lists the printed equations that tests hold the code against."""

import functools
import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

FIDELITY = runpy.run_path(Path(__file__).parents[2] / "tools/fidelity.py")
EQUATIONS = FIDELITY["equations"]()


def test_the_page_is_up_to_date():
    assert FIDELITY["PAGE"].read_text("utf-8") == FIDELITY["page"]()


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda e: f"{e['paper']}-{e['number']}")
def test_code_exists_and_names_the_equation(equation):
    assert equation.keys() == {"paper", "number", "code", "deviation", "file", "test"}
    package, module, *names = equation["code"].split(".")
    code = functools.reduce(getattr, names, importlib.import_module(f"{package}.{module}"))
    # Numbers such as 4.1 and P2; a plain 1 would be found in most docstrings.
    for number in re.findall(r"\d+(?:\.\d+)+|P\d", equation["number"]):
        assert re.search(rf"(?<![\d.]){number}(?!\.?\d)", inspect.getdoc(code)), number
