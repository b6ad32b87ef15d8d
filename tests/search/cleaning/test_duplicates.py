import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded import random_embeddings, rows_of, with_another_model, write_embeddings
from faults import stopped_at
from PIL import Image

from gsp_tf.runs import RunFolder
from gsp_tf.search import (
    Embeddings,
    RunModel,
    Thresholds,
    build_index,
    calibrate,
    find_duplicates,
    find_label_errors,
)
from gsp_tf.search.cleaning import _images, duplicates
from gsp_tf.search.cleaning.duplicates import _calibrate_on_copies, _DuplicateDistance

NEAR = 0.035  # altered copies are up to 0.019 away, other images 0.074 or more

PLANTED = [
    {"0.png", "identical.png", "quality.jpg"},
    {"12.png", "half.png"},
    {"mirrored.png", "mirrored and larger.png"},
]


def groups_of(found):
    """The names of the files of each group."""
    groups = (found.names[found.groups == group] for group in range(found.count))
    return [{Path(name).name for name in names} for names in groups]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_planted_copies_are_found_and_images_stay_as_they_are(colours_run, photos, tmp_path):
    before = [contents(folder) for folder in photos]
    found = find_duplicates(photos, tmp_path / "out", colours_run, NEAR)
    assert [contents(folder) for folder in photos] == before
    assert sorted(map(sorted, groups_of(found))) == sorted(map(sorted, PLANTED))
    assert list(map(Path, found.problems)) == [photos[1] / "broken.png"]
    rows = rows_of(found.table)
    identical = {Path(row["path"]).name for row in rows if row["kind"] == "identical"}
    assert identical == {"0.png", "identical.png"}
    # The representative has most pixels, then most bytes, then the first path.
    first = min(photos[0] / "class 0" / "0.png", photos[1] / "identical.png", key=str)
    best = {Path(row["path"]).name for row in rows if row["representative"]}
    assert best == {first.name, "12.png", "mirrored and larger.png"} and found.num_mixed == 0
    sizes = {Path(row["path"]).name: (row["width"], row["height"]) for row in rows}
    assert sizes["half.png"] == (32, 32) and sizes["mirrored and larger.png"] == (96, 96)
    embeddings = RunModel(colours_run).embed_images([row["path"] for row in rows]).embeddings
    for row, embedding in zip(rows, embeddings, strict=True):
        chosen = [r["group"] == row["group"] and r["representative"] for r in rows]
        apart = np.linalg.norm(embedding - embeddings[chosen][0])
        assert row["distance"] == pytest.approx(apart, abs=1e-5)
    # The copies were given as a source of their own: they share images with the first.
    one, other = map(str, photos)
    shared = {Path(found.names[row]).name for row in found.shared[one, other][0]}
    assert shared == {"0.png", "12.png"}
    assert {row["shared_with"] for row in rows if row["set"] == one} == {json.dumps([other])}
    page = found.page.read_text("utf-8")
    assert all(name in page for names in PLANTED for name in names)


def test_no_file_is_a_superfluous_copy_of_itself(colours, tmp_path, printed_by):
    folder = tmp_path / "photos"
    link, *files = (folder / name for name in ("a/link.png", "b/1.png", "b/2.png"))
    for path in (link, files[0]):
        path.parent.mkdir(parents=True)
    for path in files:
        shutil.copy(next(colours.rglob("0.png")), path)
    link.symlink_to(files[0])
    printed = printed_by("dedup", folder, folder / "b", "--out", tmp_path / "out")
    assert "5 images: 1 group of 5 images" in printed
    assert "2 identical files and 0 near duplicates besides the representatives" in printed
    rows = rows_of(tmp_path / "out" / "duplicates.csv")
    assert [row["path"] for row in rows if not row["representative"]] == [str(files[1])] * 2
    found = find_duplicates([link, files[0]], tmp_path / "linked")
    assert found.representatives.tolist() == [1, 1] and found.is_representative.all()


def test_photographs_may_lie_beside_tables(colours, colours_run, tmp_path, printed_by, monkeypatch):
    folder = shutil.copytree(colours, tmp_path / "photos")
    pq.write_table(pa.table({"embedding": [[1.0, 2.0]] * 3}), folder / "metadata.parquet")
    monkeypatch.chdir(folder)
    for new in (24, 0):  # the result lies in the folder too, with the embeddings
        printed = printed_by("dedup", ".", "--run", colours_run, "--distance", NEAR)
        assert f"Embedded {new} new images." in printed and "24 images: 0 groups" in printed


def test_names_that_are_not_text_are_written_as_text(colours, tmp_path, printed_by):
    for folder, name in ((b"\x1b[31ma", b"\xff.png"), (b"b", b"\x1b[31m.png")):
        path = os.fsencode(tmp_path) + b"/" + folder
        os.makedirs(path)
        shutil.copy(next(colours.rglob("0.png")), path + b"/" + name)
    sources = [tmp_path / "\x1b[31ma", tmp_path / "b"]
    printed = printed_by("dedup", *sources, "--out", tmp_path / "out")
    assert "\x1b" not in printed and "\ufffd.png and" in printed
    paths = [row["path"] for row in rows_of(tmp_path / "out" / "duplicates.csv")]
    assert sorted(paths) == [f"{tmp_path}/\x1b[31ma/\\udcff.png", f"{tmp_path}/b/\x1b[31m.png"]


def test_another_call_embeds_lost_new_and_changed_files(colours_run, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(_images, "_SHARD", 12)
    out, folder = tmp_path / "out", photos[1]
    with stopped_at("embeddings-00002.parquet"):
        find_duplicates(photos, out, colours_run, NEAR)
    found = find_duplicates(photos, out, colours_run, NEAR)
    assert found.num_new == 29 - 24
    assert sorted(map(sorted, groups_of(found))) == sorted(map(sorted, PLANTED))
    again = find_duplicates(photos, out, colours_run, NEAR)
    assert again.num_new == 0 and len(again.problems) == 1
    shutil.copy(folder / "half.png", folder / "new.png")
    Image.new("RGB", (64, 64), "green").save(folder / "quality.jpg")
    (folder / "mirrored.png").unlink()
    found = find_duplicates(photos, out, colours_run, NEAR)
    assert found.num_new == 2
    expected = [["0.png", "identical.png"], ["12.png", "half.png", "new.png"]]
    assert sorted(map(sorted, groups_of(found))) == expected
    fresh = find_duplicates(photos, tmp_path / "fresh", colours_run, NEAR)
    assert (fresh.groups == found.groups).all() and fresh.num_new == 30 - 1


def test_embeddings_of_an_index_and_of_a_file_have_the_same_groups(tmp_path):
    embeddings = random_embeddings(60)  # some occur twice
    names = [f"/no/{number:02}.png" for number in range(60)]
    split = ["train" if number % 3 else "test" for number in range(60)]
    folder = write_embeddings(tmp_path / "embedded", embeddings, names)
    table = pa.table({"embedding": embeddings.tolist(), "path": names, "split": split})
    pq.write_table(table, tmp_path / "a.parquet")
    index = build_index(folder, tmp_path / "index").path
    given = {"out": tmp_path / "out", "distance": 1e-3, "table": "parquet"}
    index, of_file = (find_duplicates(of, **given) for of in (index, tmp_path / "a.parquet"))
    assert index.count == 3 and index.sets is None and index.names.tolist() == names
    np.testing.assert_array_equal(index.groups, of_file.groups)
    assert pq.read_table(of_file.table)["group"].to_pylist() == [0, 0, 1, 1, 2, 2]
    in_test, in_train = of_file.shared["test", "train"]
    assert {split[row] for row in in_test} == {"test"} and len(in_test) == len(in_train) == 2


def test_splits_of_a_run_and_of_a_recipe_share_images(colours_run, tmp_path):
    found = find_duplicates(colours_run, tmp_path / "out", distance=0.2)
    assert set(found.sets) == {"train", "validation", "test"} and len(found.names) == 24
    embedded = RunModel(colours_run).embed_images(found.names.tolist()).embeddings
    path = write_embeddings(tmp_path / "embedded", embedded, found.names.tolist())
    recipe = RunFolder(colours_run).recipe()
    again = find_duplicates(path, tmp_path / "again", distance=0.2, splits=recipe)
    assert (again.groups == found.groups).all() and (again.sets == found.sets).all()
    assert found.shared and found.shared.keys() == again.shared.keys()


def test_the_distance_is_measured_and_kept(colours, colours_run, tmp_path, printed_by, monkeypatch):
    arguments = ["dedup", colours, "--run", colours_run, "--out", tmp_path / "out"]
    printed = printed_by(*arguments)
    assert "altered copies: JPEG of quality 50 100 %, half the size" in printed
    assert "Measured on 24 images" in printed and "0 groups" in printed
    assert "An earlier call" not in printed
    file = tmp_path / "out" / "distance.json"
    kept = file.read_bytes()
    assert f"An earlier call measured this; remove {file} to measure" in printed_by(*arguments)
    assert file.read_bytes() == kept
    # Images with a duplicate do not count: the distance is that to the nearest other image.
    files = sorted(map(str, colours.rglob("*.png")))
    model = RunModel(colours_run)
    embeddings = model.embed_images(files).embeddings
    between = np.linalg.norm(embeddings[:, None] - embeddings, axis=-1)
    nearest = (between + np.diag(np.full(24, np.inf))).min(axis=1)
    measured = _DuplicateDistance.read(file).distance
    assert measured == pytest.approx(nearest.min(), rel=1e-3)
    monkeypatch.setattr(duplicates, "_ALTERED", 1)
    found = _calibrate_on_copies(model, files, embeddings, 0.5)
    assert found.distance == pytest.approx(np.sort(nearest)[12], rel=1e-3)
    doubled = [*files, files[0]]
    found = _calibrate_on_copies(model, doubled, embeddings[[*range(24), 0]], 0)
    assert found.distance == pytest.approx(nearest[1:].min(), rel=1e-3)
    with pytest.raises(ValueError, match="Only 5 images can be read, too few"):
        _calibrate_on_copies(model, files[:5], embeddings[:5])


def test_what_cannot_be_used_is_refused(colours, colours_run, tmp_path, refused):
    other_run = with_another_model(colours_run, tmp_path / "other")
    embeddings = random_embeddings(40)
    folder = write_embeddings(tmp_path / "embedded", embeddings)
    np.savez(tmp_path / "one.npz", embeddings=np.ones((1, 2)))
    labels = [name for name in "abcdefghij" for _ in range(4)]
    for metric in ("euclidean", "cosine"):
        found = Embeddings.from_arrays(embeddings, labels=labels, metric=metric)
        calibrate(found, 0.1, out=tmp_path / f"{metric}.json", num_resamples=5)
    np.savez(tmp_path / "eight.npz", embeddings=embeddings)
    np.savez(tmp_path / "nine.npz", embeddings=random_embeddings(40, 9))
    for find in (find_duplicates, find_label_errors):
        with pytest.raises(ValueError, match="table must be one of csv, parquet, received 'xlsx'"):
            find(folder, tmp_path / "out", table="xlsx")
    with_distance = ["--distance", 1]
    for arguments, message in (
        ([folder], "Give a distance .--distance., thresholds"),
        ([folder, "--distance", 1, "--thresholds", "a"], "not both"),
        ([tmp_path / "one.npz", *with_distance], "Two images or more are needed; received 1."),
        ([folder, "--thresholds", tmp_path / "euclidean.json"], "does not say which model"),
        ([tmp_path / "eight.npz", "--thresholds", tmp_path / "cosine.json"], "cosine distances"),
        ([tmp_path / "nine.npz", "--thresholds", tmp_path / "euclidean.json"], "has dimension 9"),
        ([folder, "--run", other_run], "do not belong together: the models are of"),
        ([folder, colours, *with_distance], "has no embeddings to compare with the others"),
        ([colours, *with_distance], "A distance is for embeddings, and there are none"),
    ):
        refused(message, "dedup", *arguments, "--out", tmp_path / "out")
    given = tmp_path / "euclidean.json"
    fits = find_duplicates(tmp_path / "eight.npz", tmp_path / "out", thresholds=given)
    assert fits.distance == Thresholds.read(given).match.distance.value
    find_duplicates(colours, tmp_path / "kept", colours_run, NEAR)
    with pytest.raises(ValueError, match="do not belong together.*--out NEW"):
        find_duplicates(colours, tmp_path / "kept", other_run, NEAR)
