"""docs/losses.md has every loss with its arguments and defaults."""

import ast
import inspect
import re
from pathlib import Path

import keras
import pytest

from gsp_tf import losses

ROOT = Path(__file__).parents[2]
TABLES = re.findall(r"^\| `(\w+)\((.*?)\)`", (ROOT / "docs/losses.md").read_text("utf-8"), re.M)
KINDS = (keras.losses.Loss, losses.Miner, losses.RowRegularizer, losses.Distance)
BASES = {"Distance", "Miner", "PairLoss", "ProxyLoss", "RowRegularizer", "TripletMiner"}


def test_every_class_is_in_one_table():
    exported = {name: getattr(losses, name) for name in {*losses.__all__} - BASES}
    classes = [n for n, x in exported.items() if inspect.isclass(x) and issubclass(x, KINDS)]
    listed = [name for name, _ in TABLES if not name.islower() and name in losses.__all__]
    assert sorted(listed) == sorted(classes)


@pytest.mark.parametrize(("name", "arguments"), TABLES, ids=[name for name, _ in TABLES])
def test_arguments_and_defaults_are_those_of_the_class(name, arguments):
    parameters = inspect.signature(getattr(losses, name)).parameters
    call = ast.parse(f"f({arguments})", mode="eval").body
    assert [x.id for x in call.args] == list(parameters)[: len(call.args)]
    for keyword in call.keywords:
        assert ast.literal_eval(keyword.value) == parameters[keyword.arg].default
