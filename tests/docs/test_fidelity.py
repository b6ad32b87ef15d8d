"""docs/fidelity.md lists the printed equations that tests/papers holds the code against."""

import inspect
import re
import runpy
from pathlib import Path
from pkgutil import resolve_name

import pytest

FIDELITY = runpy.run_path(Path(__file__).parents[2] / "tools/fidelity.py")
EQUATIONS = FIDELITY["equations"]()


def test_the_page_is_up_to_date():
    assert FIDELITY["PAGE"].read_text("utf-8") == FIDELITY["page"]()


@pytest.mark.parametrize(
    "equation", EQUATIONS, ids=lambda e: f"{e['paper']} {e['number']} {e['code']}"
)
def test_the_code_names_its_equation(equation):
    assert equation.keys() == {"paper", "number", "code", "deviation", "file", "test"}
    code = resolve_name(equation["code"])
    docstrings = f"{inspect.getdoc(code)} {inspect.getmodule(code).__doc__}"
    numbers = re.findall(r"P?\d+(?:\.\d+)*", equation["number"])
    missing = [n for n in numbers if not re.search(rf"(?<![\d.]){n}(?!\.?\d)", docstrings)]
    assert not missing or not equation["code"].startswith("gsp_tf."), missing
