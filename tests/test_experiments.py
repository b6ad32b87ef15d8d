import re
import runpy
from pathlib import Path

import pytest

from gsp_tf.recipe import load_recipe

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("omniglot_collage", 2),
        ("random_background", 2),
        ("demo", 2),
        ("omniglot_ccp", 12),
        ("small_collage", 29),
    ],
)
def test_the_tables_are_what_the_results_say(name, rows):
    summarize = runpy.run_path(str(EXPERIMENTS / "summarize.py"))["summarize"]
    table = summarize(sorted((EXPERIMENTS / "results").glob(f"{name}_*")))
    assert len(table.splitlines()) == 2 + rows
    assert table in (EXPERIMENTS / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("C1", "c1"),
        ("C2", "c2"),
        ("triplet", "triplet"),
        ("MS", "ms"),
        ("SoftTriple", "soft_triple"),
        ("Proxy-Anchor", "pa"),
        ("ProxyNCA++", "pnca"),
    ],
)
def test_the_parameters_of_losses_are_those_of_the_documentation(name, stem):
    text = (EXPERIMENTS.parent / "docs/losses.md").read_text("utf-8")
    pattern = rf"^\| {re.escape(name)} `\((.*)\)` \|(.*)\|(.*)\|(.*)\|(.*)\|$"
    ((arguments, *columns),) = re.findall(pattern, text, re.M)
    for data_set, column in zip(("cub200", "cars196", "in_shop", "sop"), columns, strict=True):
        own = EXPERIMENTS / "methods" / data_set / f"{stem}.yaml"
        loss = load_recipe(own if own.is_file() else EXPERIMENTS / f"methods/{stem}.yaml").loss
        given = [loss.arguments[argument] for argument in arguments.split(", ")]
        assert given == [float(value) for value in column.split(",")]
