"""Image folders that are broken, or change while a run trains."""

import os
import re
import shutil

import pytest
from digit_runs import run_command
from faults import kill_while_writing, largest_file
from PIL import Image

from gsp_tf.runs import Run, RunFolder
from gsp_tf.training import Checkpoint, StopOnNaN, epoch_of

JPEG = ["--data.channels", 3, "--data.resize", 18, "--data.min_crop_area", 0.3]


@pytest.fixture
def images(tmp_path, digits):
    """Folder of the digits as JPEG files."""
    for path in digits.glob("*/*.png"):
        copy = tmp_path / "images" / path.parent.name / f"{path.stem}.jpg"
        copy.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).convert("RGB").resize((40, 30)).save(copy)
    return tmp_path / "images"


@pytest.fixture
def run(tmp_path, images, write_recipe, capfd, monkeypatch):
    """Function that trains with options: the exit code, what was said, and the folder."""
    monkeypatch.setattr(Run, "show", lambda self: None)
    begin = [write_recipe("training: {epochs: 2, steps_per_epoch: 2}"), "--data.path", images]
    folder = RunFolder(tmp_path / "run")

    def train(*options, resume=False):
        what = ["--resume", folder.path] if resume else [*begin, *JPEG, "--run", folder.path]
        return run_command("train", *what, *options), capfd.readouterr().err, folder

    return train


SHORT = ["--training.epochs", 3, "--training.steps_per_epoch", 1]


def test_files_that_break_while_training_are_named_and_the_run_continues_when_mended(
    run, images, monkeypatch
):
    whole = {path: path.read_bytes() for path in images.glob("*/*.jpg")}

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            for path in whole:
                os.truncate(path, 300)

    with monkeypatch.context() as patch:
        patch.setattr(StopOnNaN, "on_epoch_end", on_epoch_end, raising=False)
        code, said, folder = run()
    assert code == 1 and re.search(r"gsp-tf: error: .*bild \d+\.jpg", said), said
    assert folder.metrics()["status"] == "failed" and epoch_of(folder.checkpoint_path) == 1
    for path, contents in whole.items():
        path.write_bytes(contents)
    code, said, folder = run(resume=True)
    assert code == 0 and folder.metrics()["status"] == "finished"
    assert len(folder.history()["loss"]) == 2


def test_a_full_disk_is_told_with_what_is_kept(run, monkeypatch):
    for full_at, kept in (
        (1, "No epoch of training is kept: free some space, then begin again with"),
        (2, "The run keeps 1 epoch of training: free some space, then continue with"),
    ):

        def save(self, epoch, original=Checkpoint._save, full_at=full_at):
            with largest_file(3000 if epoch == full_at else 10**9):
                original(self, epoch)

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "_save", save)
            code, said, folder = run(*([] if full_at > 1 else SHORT), resume=full_at > 1)
        told = said.strip().splitlines()[-1]
        assert code == 1
        error = f"{folder.checkpoint_path} cannot be written: it would"
        assert told.startswith(f"gsp-tf: error: {error}")
        assert told.endswith(f"{kept} gsp-tf train --resume {folder.path}")
        assert folder.metrics()["status"] == "failed"
        assert epoch_of(folder.checkpoint_path) == full_at - 1
        kill_while_writing("replacing", folder.model_path)
    code, said, folder = run(resume=True)
    assert code == 0 and len(folder.history()["loss"]) == 3
    assert [path.name for path in folder.path.rglob(".*")] == [".lock"]


def test_copies_are_made_of_all_files_or_of_those_not_broken(run, images, tmp_path, monkeypatch):
    monkeypatch.setattr("keras.Model.fit", lambda *arguments, **keywords: None)
    broken = min(images.glob("*/*.jpg"))
    os.truncate(broken, 300)
    options = "--data.cache", tmp_path / "copies", "--training.epochs", 1
    code, said, folder = run(*options)
    assert code == 1 and "1 of 200 files cannot be read" in said and broken.name in said
    assert not folder.path.exists()
    code, said, folder = run(*options, "--skip-unreadable")
    assert code == 0 and len(list((tmp_path / "copies").glob("*/*.npy"))) == 199
    assert "1 of 200 files, which cannot be read as images" in said and broken.name in said
    shutil.rmtree(tmp_path / "copies")
    again = Run(folder.path)
    assert again.test_images == folder.metrics()["test_images"]
    assert {*again.splits.test.paths} < {*map(str, images.glob("*/*.jpg"))}
