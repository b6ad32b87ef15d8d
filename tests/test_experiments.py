"""The studies' tables, and one small study."""

import re
from pathlib import Path

import pytest

from gsp_tf.recipe import load_recipe

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
TABLES = [
    *(EXPERIMENTS / "results").glob("*.csv"),
    *(EXPERIMENTS / "results/studies").glob("*.csv"),
]


def test_a_study_writes_its_table_and_its_picture(study, tmp_path):
    (path,) = study("run").run("toy_transport", ["--seeds=[0, 1]"], tmp_path, tmp_path)
    records = study("records")
    found = records.read(path)
    kept = records.read(EXPERIMENTS / "results/studies/toy_transport.csv")
    for variant, row in kept.items():
        for quantity, values in row.items():
            assert found[variant][quantity] == pytest.approx(
                {seed: values[seed] for seed in (0, 1)}, rel=1e-3, abs=1e-9
            )
    assert (tmp_path / "toy_transport.png").stat().st_size > 10_000
    assert {"collage", "evidence", "small_collage"} < set(study("run").names())


def test_tables_are_read_as_they_were_written(study, tmp_path):
    records, path = study("records"), tmp_path / "new/study.csv"
    rows = [("a", 0, "x", 1.0), ("a", 1, "x", 3.0), ("a", 0, "y", 0.25), ("b", 0, "x", -2e-7)]
    records.write(path, rows)
    assert records.read(path) == {"a": {"x": {0: 1, 1: 3}, "y": {0: 0.25}}, "b": {"x": {0: -2e-7}}}
    assert records.table(path).splitlines() == [
        "| variant | x | y | seeds |",
        "| --- | --- | --- | --- |",
        "| a | 2 ± 1.4 | 0.25 | 0, 1 |",
        "| b | -2e-07 |  | 0 |",
    ]
    records.add(path, [("b", 1, "x", 5.0), ("a", 0, "y", 0.5)])
    assert records.read(path)["b"] == {"x": {0: -2e-7, 1: 5}}
    assert records.read(path)["a"]["y"] == {0: 0.5}
    assert records.mean_and_deviation([1000.0, 1200.0, 700.0]) == "966.7 ± 252"
    assert records.shown_seeds([2, 3, 4, 5]) == "2 to 5"


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_tables_are_what_the_results_say(study, path):
    assert study("records").table(path) in (EXPERIMENTS / "README.md").read_text("utf-8")


def test_the_pages_hold_the_tables_of_the_evidence(study):
    page, docs = study("evidence_page"), EXPERIMENTS.parent / "docs"
    results = EXPERIMENTS / "results/evidence"
    text = (docs / "studies/evidence.md").read_text("utf-8")
    assert page.page(text, results) == text
    text = (docs / "losses.md").read_text("utf-8")
    table = page.losses_markdown(study("records").read(results / "losses.csv"))
    assert page.between_marks(text, table + "\n") == text
    with pytest.raises(ValueError, match="lacks the marks"):
        page.between_marks("no marks\n", "a table")


DRAWN = ["small_collage", "sensitivity", "backward_cost", "ccp", "crt_generalization"]
DRAWN += ["average_pooling"]
LOSSES = {
    "C1": "c1", "C2": "c2", "triplet": "triplet", "MS": "ms", "SoftTriple": "soft_triple",
    "Proxy-Anchor": "pa", "ProxyNCA++": "pnca",
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_come_from_the_tables(study, tmp_path, name):
    out = EXPERIMENTS / ("results" if name == "small_collage" else "results/studies")
    study("run").run(name, [], out, tmp_path, draw=True)
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize(("name", "stem"), LOSSES.items())
def test_the_parameters_of_losses_are_those_of_the_documentation(name, stem):
    text = (EXPERIMENTS.parent / "docs/losses.md").read_text("utf-8")
    pattern = rf"^\| {re.escape(name)} `\((.*)\)` \|(.*)\|(.*)\|(.*)\|(.*)\|$"
    ((arguments, *columns),) = re.findall(pattern, text, re.M)
    for data_set, column in zip(("cub200", "cars196", "in_shop", "sop"), columns, strict=True):
        folders = [data_set, "large"] if data_set in ("in_shop", "sop") else [data_set]
        files = [EXPERIMENTS / f"methods/{folder}/{stem}.yaml" for folder in folders]
        files.append(EXPERIMENTS / f"methods/{stem}.yaml")
        loss = load_recipe(next(file for file in files if file.is_file())).loss
        given = [loss.arguments[argument] for argument in arguments.split(", ")]
        assert given == [float(value) for value in column.split(",")]
