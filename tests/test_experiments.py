import re
import runpy
from pathlib import Path

import pytest

from gsp_tf.experiment.losses import complete_arguments
from gsp_tf.recipe import load_recipe

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("omniglot_collage", 2),
        ("random_background", 2),
        ("demo", 2),
        ("omniglot_ccp", 12),
        ("small_collage", 28),
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


def rows_of_the_papers():
    """Recipe files of every row of the papers' tables, as the README lists them."""
    text = (EXPERIMENTS / "README.md").read_text("utf-8")
    rows = re.findall(r"^\|.*\| `((?:(?:methods|conventional)/\S+\.yaml ?)+)` \|", text, re.M)
    return [row.split() for row in rows]


@pytest.mark.parametrize("files", rows_of_the_papers(), ids=lambda files: "-".join(files))
@pytest.mark.parametrize("name", ["cub200", "in_shop"])
def test_a_row_of_the_papers_is_a_recipe(name, files):
    own = [EXPERIMENTS / file.replace("methods/", f"methods/{name}/") for file in files]
    general = [EXPERIMENTS / file for file in files]
    chosen = [a if a.is_file() else b for a, b in zip(own, general, strict=True)]
    recipe = load_recipe([EXPERIMENTS / f"benchmarks/{name}.yaml", *chosen])
    assert complete_arguments(recipe.loss).arguments
    assert recipe.name == "-".join(Path(file).stem for file in files)
    is_conventional = files[0].startswith("conventional")
    assert recipe.protocol.name == ("conventional" if is_conventional else "mlrc")
    assert (recipe.trainer == "ccp") == ("methods/ccp.yaml" in files)
    assert (recipe.loss.wrapper == "cross_batch_memory") == ("methods/xbm.yaml" in files)


def test_the_papers_have_24_rows_that_are_listed_file_by_file():
    assert len(rows_of_the_papers()) == 24
