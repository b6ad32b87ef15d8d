"""Recipes of runs, and the epochs in `history.csv`: 0 is untrained, and training counts from 1."""

import csv

import pytest

from gsp_tf._files import SEAL, UNSEALED, sealed
from gsp_tf.recipe import ClassRecipe, Recipe
from gsp_tf.runs import RunFolder


@pytest.fixture
def folder(tmp_path):
    written = RunFolder(tmp_path)
    written.add_epoch(0, {"val_map_at_r": 0.1})
    written.add_epoch(1, {"loss": 2.0, "val_map_at_r": 0.2})
    written.add_epoch(2, {"loss": 1.0, "val_map_at_r": 0.3, "rate": 0.5})
    return written


def rows(folder):
    with open(folder.history_path, newline="") as file:
        return [{k: v for k, v in row.items() if k != SEAL} for row in csv.DictReader(file)]


def test_row_0_is_the_untrained_model_and_every_column_is_kept(folder):
    assert rows(folder) == [
        {"epoch": "0", "loss": "", "rate": "", "val_map_at_r": "0.1"},
        {"epoch": "1", "loss": "2.0", "rate": "", "val_map_at_r": "0.2"},
        {"epoch": "2", "loss": "1.0", "rate": "0.5", "val_map_at_r": "0.3"},
    ]
    history = folder.history()
    assert history["loss"] == [2.0, 1.0] and history["val_map_at_r"] == [0.2, 0.3]
    assert history["rate"] == [pytest.approx(float("nan"), nan_ok=True), 0.5]


def test_an_epoch_that_is_trained_again_takes_the_place_of_what_came_after(folder):
    folder.add_epoch(1, {"loss": 3.0})
    assert [row["epoch"] for row in rows(folder)] == ["0", "1"]
    assert folder.history()["loss"] == [3.0]
    folder.cut_history(0)
    assert [row["epoch"] for row in rows(folder)] == ["0"] and folder.history() == {}


def test_epochs_keep_their_numbers_after_the_file_was_lost(folder):
    folder.history_path.unlink()
    folder.cut_history(2)
    folder.add_epoch(3, {"loss": 0.5})
    assert [row["epoch"] for row in rows(folder)] == ["0", "1", "2", "3"]
    assert folder.history()["loss"][2] == 0.5 and len(folder.history()["loss"]) == 3


@pytest.mark.parametrize(
    "table",
    [
        "epoch,loss,seal\n0,2.0,\n1,1.0,",  # epochs from 0
        "epoch,loss,seal\n0,,\n2,1.0,",
        "number,loss,seal\n0,,\n1,1.0,",
    ],
)
def test_other_numbers_are_refused_and_not_misread(tmp_path, table):
    folder = RunFolder(tmp_path)
    folder.history_path.write_bytes(sealed(f"{table}{UNSEALED}\n".encode()))
    for read in (folder.history, lambda: folder.cut_history(1), lambda: folder.add_epoch(3, {})):
        with pytest.raises(ValueError, match="is damaged: row 0 must be the model before"):
            read()


def test_a_recipe_that_is_changed_in_memory_leaves_that_of_the_file(tmp_path):
    written = Recipe("GSP", loss=ClassRecipe("triplet", {"margin": 0.2}))
    folder = RunFolder(tmp_path / "run").start(written)
    read = folder.recipe()
    read.loss.arguments["margin"] = 0.5
    read.backbone.freeze.append("stem")
    assert folder.recipe() == RunFolder(folder.path).recipe() == written
