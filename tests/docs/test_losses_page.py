"""docs/losses.md has every loss with its arguments and defaults, and README.md their numbers."""

import ast
import inspect
import re
from pathlib import Path

import keras
import pytest

from gsp_tf import losses

ROOT = Path(__file__).parents[2]
TABLES = re.findall(r"^\| `(\w+)\((.*?)\)`", (ROOT / "docs/losses.md").read_text("utf-8"), re.M)
BASES = {"Distance", "Miner", "PairLoss", "ProxyLoss", "RowRegularizer", "TripletMiner"}
CLASSES = {
    kind: {
        name
        for name in {*losses.__all__} - BASES
        if inspect.isclass(found := getattr(losses, name)) and issubclass(found, base)
    }
    for kind, base in (
        ("losses", keras.losses.Loss),
        ("miners", losses.Miner),
        ("regularisers", losses.RowRegularizer),
        ("distances", losses.Distance),
    )
}


def test_every_class_is_in_one_table():
    assert sorted(name for name, _ in TABLES if not name.islower() and name in losses.__all__) == (
        sorted(set.union(*CLASSES.values()))
    )


@pytest.mark.parametrize(("name", "arguments"), TABLES, ids=[name for name, _ in TABLES])
def test_arguments_and_defaults_are_those_of_the_class(name, arguments):
    parameters = inspect.signature(getattr(losses, name)).parameters
    call = ast.parse(f"f({arguments})", mode="eval").body
    assert [x.id for x in call.args] == list(parameters)[: len(call.args)]
    for keyword in call.keywords:
        assert ast.literal_eval(keyword.value) == parameters[keyword.arg].default
