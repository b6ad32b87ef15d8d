"""Commands after others that were killed, and on a disk that is full at different moments."""

import os
import shutil

import numpy as np
import pytest
from clusters import around_centres
from digit_runs import run_command
from faults import kill_while_writing, largest_file

from gsp_tf.export import verify_export
from gsp_tf.search import verify_index
from gsp_tf.search._embedded import EmbeddingsFolder


def is_page(path):
    assert path.read_text("utf-8").rstrip().endswith("</html>")


def is_embedded(path):
    assert sum(len(shard) for shard in EmbeddingsFolder.open(path).shards()) == 80


COMMANDS = {
    "embed": ("embed RUN IMAGES --out OUT", "OUT/embeddings.json", is_embedded),
    "index": ("index RUN/embeddings --out OUT", "OUT/index.json", verify_index),
    "search": ("search RUN IMAGE --html OUT", "OUT", is_page),
    "export": ("export RUN --format saved_model --out OUT", "OUT ANOTHER", verify_export),
}


def state(folder):
    """The files of a folder, when they were written and what they hold."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return [(path, path.stat().st_mtime_ns, path.read_bytes()) for path in files]


def hidden(folder):
    return [path for path in folder.rglob(".*") if path.name != ".lock"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_whole_or_says_why_not(prepared_run, images, tmp_path, capsys, name):
    arguments, written, check = COMMANDS[name]
    places = {
        "RUN": shutil.copytree(prepared_run, tmp_path / "run"),
        "IMAGES": images,
        "IMAGE": min(images.glob("*/*.png")),
        "OUT": tmp_path / "out",
        "ANOTHER": tmp_path / "another",
    }

    def placed(argument):
        place, _, rest = argument.partition("/")
        return places[place] / rest if place in places else argument

    paths = list(map(placed, written.split()))
    paths[0].parent.mkdir(exist_ok=True)
    kill_while_writing("new_folder" if name == "export" else "replacing", *paths)
    assert hidden(tmp_path)
    failures = 0
    sizes = (300, 1500, 12_000, 60_000) if name in ("embed", "index") else (12_000,)
    for size in (*sizes, 10**9):
        with largest_file(size):
            code = run_command(*map(placed, arguments.split()))
        assert hidden(tmp_path) == []
        if code == 0:
            break
        failures += 1
        told = capsys.readouterr().err.strip().splitlines()[-1]
        assert told.startswith(f"gsp-tf: error: {places['OUT']}"), told
        assert "cannot be written: it would be larger" in told and "{{" not in told, told
        if name != "embed":
            assert not places["OUT"].is_file() and not any(places["OUT"].glob("*.json"))
    assert failures and code == 0
    check(places["OUT"])


def test_an_evaluation_that_fails_keeps_the_last_one(prepared_run, tmp_path, capsys, monkeypatch):
    """The metrics and the embeddings that they are about, whichever has no room."""
    run = shutil.copytree(prepared_run, tmp_path / "run")
    names = "metrics.json", "test_embeddings.npz", "report.html"
    metrics, embeddings, report = (run / name for name in names)
    kill_while_writing("replacing", metrics, embeddings, report, run / "model.keras")
    replaced = []

    def replace(source, target, original=os.replace):
        replaced.append(target)
        original(source, target)

    monkeypatch.setattr(os, "replace", replace)
    run_command("evaluate", run)
    assert hidden(run) == []
    assert replaced[:2] == [embeddings, metrics]  # killed between them, no old embeddings count

    before = state(run)
    assert metrics.stat().st_size < embeddings.stat().st_size
    for size, path in ((200, metrics), (metrics.stat().st_size, embeddings)):
        with largest_file(size):
            assert run_command("evaluate", run) == 1
        assert f"error: {path} cannot be written" in capsys.readouterr().err
        assert state(run) == before and hidden(run) == []


WRITING = {
    "calibrate": "calibrate SOURCE --false-match-rate 0.1 --out OUT/thresholds.json",
    "clean": "clean SOURCE --out OUT",
    "compare": "index SOURCE --compare --sample 40 --out OUT",
    "rerank": "rank SOURCE --rerank whitening --out OUT/reranking.json",
    "verification": "verify SOURCE 0.1 --out OUT/pairs.json",
}


@pytest.mark.parametrize("name", WRITING)
def test_a_command_that_cannot_rename_keeps_the_old_file(tmp_path, monkeypatch, capsys, name):
    """What a command writes is complete under another name before it takes that of a file."""
    embeddings, classes = around_centres(6, size=10)
    labels = [f"class {c}" for c in classes]
    np.savez(tmp_path / "a.npz", embeddings=embeddings.astype("float32"), labels=labels)
    out = tmp_path / "out"
    out.mkdir()
    arguments = [of.replace("SOURCE", str(tmp_path / "a.npz")) for of in WRITING[name].split()]
    arguments = [of.replace("OUT", str(out)) for of in arguments]
    assert run_command(*arguments) == 0
    before = state(out)
    assert before and all(content for *_, content in before)

    def refused(source, target):
        assert os.path.getsize(source)
        raise OSError("no renaming")

    monkeypatch.setattr(os, "replace", refused)
    assert run_command(*arguments) == 1
    assert "error: no renaming" in capsys.readouterr().err
    assert state(out) == before
