from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
RESULTS = sorted((EXPERIMENTS / "results/studies").glob("*.csv"))


def test_records_are_read_as_they_were_written(script, tmp_path):
    rows = [("a", 0, "x", 1.0), ("a", 1, "x", 3.0), ("a", 0, "y", 0.25), ("b", 0, "x", -2e-7)]
    path = tmp_path / "new" / "study.csv"
    script.write(path, rows)
    assert script.read(path) == {
        "a": {"x": {0: 1, 1: 3}, "y": {0: 0.25}},
        "b": {"x": {0: -2e-7}},
    }
    assert script.table(path).splitlines() == [
        "| variant | x | y | seeds |",
        "| --- | --- | --- | --- |",
        "| a | 2 ± 1.4 | 0.25 | 0, 1 |",
        "| b | -2e-07 |  | 0 |",
    ]
    assert [file.name for file in path.parent.iterdir()] == ["study.csv"]


def test_deviations_have_two_digits_or_the_unit(script):
    assert script.mean_and_deviation([1.0, 2.0]) == "1.5 ± 0.71"
    assert script.mean_and_deviation([1000.0, 1200.0, 700.0]) == "966.7 ± 252"
    assert script.mean_and_deviation([5.0]) == "5"


def test_many_seeds_in_a_row_are_shown_by_their_ends(script):
    assert script.shown_seeds([2, 3, 4, 5]) == "2 to 5"
    assert script.shown_seeds([0, 1, 2, 4]) == "0, 1, 2, 4"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_tables_of_the_studies_are_what_the_results_say(script, path):
    assert script.table(path) in (EXPERIMENTS / "README.md").read_text("utf-8")
