import dataclasses
import html
import os
import re
import shutil
from pathlib import Path

import processes
import pytest
from embedded import edit_json, edit_recipe, thresholds_at, with_another_model

from gsp_tf.search import EmbeddingsFolder, build_index, calibrate, search, search_many
from gsp_tf.search.index.neighbours import _is_of


def texts_of(page):
    """The texts between the tags of a page."""
    found = re.split("<[^>]*>", page.read_text("utf-8"))
    return [html.unescape(text).strip() for text in found]


def test_from_images_to_neighbours(finished_run, images, query, tmp_path, printed_by):
    run = shutil.copytree(finished_run, tmp_path / "run")
    assert f"{run}/embeddings: 80 images of dimension 8" in printed_by("embed", run, images)
    output = printed_by("index", run / "embeddings")
    assert f"{run}/index: 80 images, exact, euclidean" in output
    assert "it finds all nearest" in output
    # A fresh process finds the same.
    code = "import sys; from gsp_tf.cli import main; main(sys.argv[1:])"
    done = processes.run(code, "search", run, query, "--k", 4, "--html", "--mapped", "true")
    output = done.output
    assert done.returncode == 0 and f"Page: {run}/search.html" in output, output
    found = search(run, query, k=4)
    assert [n.rank for n in found] == [1, 2, 3, 4]
    assert found[0][2:4] == ("<b>7", str(query)) and found[0].distance < 1e-3
    assert all(a.distance <= b.distance for a, b in zip(found, found[1:], strict=False))
    shared = os.path.commonpath([Path(neighbour.path).parent for neighbour in found])
    lines = output[output.index(f"Nearest to {query}, in {shared}:") :].splitlines()[2:6]
    for neighbour, line in zip(found, lines, strict=True):
        path = os.path.relpath(neighbour.path, shared)
        cells = str(neighbour.rank), f"{neighbour.distance:.4f}", neighbour.label, path
        assert line.replace("(the same file)", "").split() == " ".join(cells).split()
    page = run / "search.html"
    assert page.read_text("utf-8").count('src="data:') == 1 + 4
    texts = set(texts_of(page))
    for neighbour in found:
        short = "/".join(Path(neighbour.path).parts[-2:])
        label = f"{neighbour.rank} · {neighbour.label}"
        assert {f"{neighbour.distance:.4f}", short, label} <= texts


def test_another_model_or_preprocessing_is_refused(run, query, tmp_path):
    other = with_another_model(run, tmp_path / "other")
    with pytest.raises(ValueError, match="the index .*: the models are of .*/other and .*/run.$"):
        search(other, query, run / "index")
    edit_recipe(run, "resize: 18", "resize: 20")
    with pytest.raises(ValueError, match="do not belong together: the preprocessing"):
        search(run, query)


def test_a_run_that_was_copied_has_its_own_index(prepared_run, query, tmp_path):
    """Though the embeddings name the run that was copied, which still has a model."""
    own = shutil.copytree(prepared_run, tmp_path / "copied")
    shutil.rmtree(own / "index")
    assert build_index(own / "embeddings").path == own / "index"
    assert search(own, query, k=1)[0].path == str(query)
    model = EmbeddingsFolder(own / "embeddings").metadata().model
    entries = {**dataclasses.asdict(model), "sha256": "a", "run": str(own)}
    edit_json(own / "embeddings" / "embeddings.json", model=entries)
    with pytest.raises(FileNotFoundError, match="is not there or has another model; say where"):
        build_index(own / "embeddings")


def test_a_query_in_the_index_does_not_decide(run, images, tmp_path, printed_by, monkeypatch):
    monkeypatch.chdir(images)
    path = sorted(images.glob("<b>7/*"))[3]
    copy = shutil.copy(path, tmp_path / "\x1b[31m[red]x.png")
    found = search(run, [path.relative_to(images), copy], k=3)
    assert [[one.is_query for one in of] for of in found] == [[True, False, False], [False] * 3]
    (tmp_path / "linked").symlink_to(images)
    (tmp_path / "link.png").symlink_to(path)
    links = [tmp_path / "linked" / path.relative_to(images), tmp_path / "link.png"]
    assert [of[0].is_query for of in search(run, links, k=3)] == [True, True]
    assert _is_of(("a.png", "/a.png", str(path)), str(links[0]))  # an index of linked paths
    nearest = found[0][1].distance
    assert nearest > 1e-3
    # By these thresholds a file matches itself, and everything else is unknown.
    thresholds = calibrate(run / "index", false_match_rate=0.3, num_resamples=5)
    strict = thresholds_at(thresholds, match=nearest / 4, unknown=nearest / 2)
    strict.write(run / "index" / "thresholds.json")
    name = path.relative_to(images)
    output = printed_by("search", run, name, "--k", 3, "--html", tmp_path / "page.html")
    assert f"Nearest to {name} (unknown)" in output
    assert output.count("(the same file)") == 1 and output.count("match ") >= 1
    texts = texts_of(tmp_path / "page.html")
    assert texts.count("the same file") == 1
    assert texts[texts.index("first image") :][1] == "unknown"
    many = search_many(run, [path.parent], tmp_path / "many.csv", k=3)
    assert many.queries == 8 and many.decisions.get("match", 0) < 8
    assert "Only one of queries and index" not in printed_by("search", run, path.parent, "--k", 1)
    printed = printed_by("search", run, copy, "--k", 1)  # the terminal gets no command from a name
    assert "\x1b" not in printed and "[red]x.png" in printed.replace("\n", "")
