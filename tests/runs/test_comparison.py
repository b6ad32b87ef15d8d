import csv
import io
import re
import statistics

import pytest

from gsp_tf.recipe import DataRecipe, EmbeddingRecipe, ProtocolRecipe, Recipe
from gsp_tf.runs import Comparison, RunFolder


@pytest.fixture
def run(tmp_path):
    """Function that writes the folder of an evaluated run; P@1 is twice MAP@R."""

    def write(name, value, protocol="fractions", path="runs/CUB", seed=0, std=None, classes="x"):
        recipe = Recipe(
            name=name,
            seed=seed,
            data=DataRecipe("folder", path),
            embedding=EmbeddingRecipe(128),
            protocol=ProtocolRecipe(protocol),
        )
        count = len(list(tmp_path.iterdir()))
        folder = RunFolder(tmp_path / f"run{count}").start(recipe)
        folder.update_metrics(status="finished")

        def metrics(value):
            return None if value is None else {"precision_at_1": 2 * value, "map_at_r": value}

        if protocol == "mlrc":
            parts = {"separated": value / 2, "concatenated": value}
            empty = {"precision_at_1": None, "map_at_r": None}
            result = {
                part: {"mean": metrics(of), "std": metrics(std) or empty}
                for part, of in parts.items()
            }
            folder.update_metrics(ensemble=result, test_classes=classes)
        else:
            recalls = {f"recall_at_{k}": value + k / 100 for k in (1, 10)}
            recalls |= {"num_queries": 97, "num_skipped": 3}
            folder.update_metrics(test=metrics(value) | recalls, test_classes=classes)
        return folder.path

    return write


def test_methods_by_data_sets(run):
    values = {0: 0.20, 1: 0.23, 2: 0.21}
    paths = [run("GSP", value, seed=seed) for seed, value in values.items()]
    paths += [run("GAP", 0.1), run("GAP", 0.3, path="x/Cars", classes="y")]
    deviation = 100 * statistics.stdev(values.values())
    assert Comparison(paths).markdown().splitlines() == [
        "| method | CUB 128D P@1 | CUB 128D MAP@R | Cars 128D P@1 | Cars 128D MAP@R |",
        "| --- | ---: | ---: | ---: | ---: |",
        f"| GSP | 42.67 ± {2 * deviation:.2f} | 21.33 ± {deviation:.2f} | – | – |",
        "| GAP | 20.00 | 10.00 | 60.00 | 30.00 |",
    ]


def test_a_folder_is_one_column_however_its_path_is_given(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = [run("GSP", 0.2, path="x/CUB"), run("GSP", 0.3, seed=1, path=str(tmp_path / "x/CUB"))]
    assert [column.dataset for column in Comparison(paths).columns] == ["CUB", "CUB"]
    elsewhere = run("GSP", 0.3, seed=1, path="y/CUB")
    assert {column.dataset for column in Comparison([paths[0], elsewhere]).columns} == {
        "x/CUB",
        "y/CUB",
    }


def test_ensembles_with_and_without_deviation(run):
    paths = [run("C2", 0.2, "mlrc", std=0.01), run("MS", 0.25, "mlrc")]
    assert Comparison(paths).markdown().splitlines() == [
        "| method | CUB 512D P@1 | CUB 512D MAP@R | CUB 128D P@1 | CUB 128D MAP@R |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| C2 | 40.00 ± 2.00 | 20.00 ± 1.00 | 20.00 ± 2.00 | 10.00 ± 1.00 |",
        "| MS | 50.00 | 25.00 | 25.00 | 12.50 |",
    ]


def test_several_conventional_runs_show_the_best_of_them(run):
    paths = [run("GSP", v, "conventional", seed=i) for i, v in enumerate((0.2, 0.3, 0.25))]
    paths += [run("GAP", 0.4, "conventional")]
    assert Comparison(paths).markdown().splitlines() == [
        "| method | CUB 128D R@1 | CUB 128D best R@1 | CUB 128D R@10 |",
        "| --- | ---: | ---: | ---: |",
        "| GSP | 26.00 ± 5.00 | 31.00 | 35.00 ± 5.00 |",
        "| GAP | 41.00 | – | 50.00 |",
    ]


def test_the_csv_has_every_number(run):
    paths = [run("a,b", 0.2), run("a,b", 0.3, seed=1), run("c", 0.5)]
    rows = list(csv.reader(io.StringIO(Comparison(paths).csv())))
    assert rows[0] == [
        "method",
        *("CUB 128D P@1", "CUB 128D P@1 std", "CUB 128D MAP@R", "CUB 128D MAP@R std"),
        "interrupted runs",
        "untrained runs",
        "runs with the last epoch",
    ]
    assert [row[0] for row in rows[1:]] == ["a,b", "c"]
    assert list(map(float, rows[1][1:])) == pytest.approx([50, 200**0.5, 25, 50**0.5, 0, 0, 0])
    assert rows[2][1:] == ["100.0", "", "50.0", "", "0", "0", "0"]


def test_interrupted_runs_are_marked(run):
    paths = [run("GSP", 0.2), run("GSP", 0.3, seed=1), run("GAP_x", 0.1)]
    RunFolder(paths[1]).update_metrics(status="interrupted")
    table = Comparison(paths).markdown()
    assert "| GAP_x | 20.00 | 10.00 |" in table and len(re.findall(r"\| GSP .*†.*†", table)) == 1
    assert table.endswith(f"\n† training was interrupted: {paths[1]}\n")
    rows = list(csv.reader(io.StringIO(Comparison(paths).csv())))
    assert [row[-3] for row in rows] == ["interrupted runs", "1", "0"]


def test_names_are_cells_of_one_table(run):
    table = Comparison([run("a|b", 0.2, path="runs/c|d")]).markdown().splitlines()
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in table[:3]]
    assert "c\\|d" in table[0] and "| a\\|b |" in table[2] and len(set(columns)) == 1


def test_runs_that_keep_the_untrained_model_are_marked(run):
    paths = [run("GSP", 0.2), run("GAP", 0.1)]
    RunFolder(paths[1]).update_metrics(best_epoch=None, epochs=3)
    table = Comparison(paths).markdown()
    assert "| GAP | 20.00‡ | 10.00‡ |" in table and "| GSP | 40.00 | 20.00 |" in table
    assert table.endswith(f"‡ no epoch was better than the untrained model: {paths[1]}\n")
    assert "\nbest epoch (0 is before training): GAP 0 of 3\n" in table


def test_what_cannot_be_compared_is_refused_or_skipped_if_asked(run, tmp_path):
    first = run("GSP", 0.2)
    unfinished = [RunFolder(tmp_path / name).start(Recipe()) for name in ("running", "failed")]
    for folder in unfinished:
        folder.update_metrics(status=folder.path.name)
    damaged = RunFolder(tmp_path / "damaged").start(Recipe())
    damaged.metrics_path.write_text("{")
    reasons = {
        tmp_path: "has no recipe.yaml",
        unfinished[0].path: "no final results yet: its status is 'running'",
        unfinished[1].path: "no final results yet: its status is 'failed'",
        damaged.path: "is damaged",
        run("GSP", 0.3): "a second run of 'GSP' on CUB with seed 0",
        run("GAP", 0.3, classes="y"): "different test classes",
        (fewer := run("GAP", 0.3)): "different test images (80 and 100), so that",
    }
    metrics = RunFolder(fewer).metrics()["test"]
    RunFolder(fewer).update_metrics(test=metrics | {"num_queries": 77})
    for path, reason in reasons.items():
        with pytest.raises((ValueError, FileNotFoundError), match=re.escape(reason)):
            Comparison([first, path])
    comparison = Comparison([first, *reasons], skip=True)
    assert comparison.markdown() == Comparison([first]).markdown()
    pairs = zip(reasons.values(), comparison.skipped, strict=True)
    assert all(reason in text for reason, text in pairs)
    with pytest.raises(ValueError, match="received none.\n  .*has no recipe.yaml"):
        Comparison([tmp_path], skip=True)
