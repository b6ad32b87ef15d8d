import csv
import io
import os
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from embedded import edit_json, edit_recipe, with_another_model
from faults import run_stopped
from PIL import Image

from gsp_tf._files import UNSEALED, file_sha256, sealed
from gsp_tf.runs import Run
from gsp_tf.search import Embeddings, RunModel, embed_images
from gsp_tf.search._embedded import EmbeddingsFolder


@pytest.fixture
def own(embedded, tmp_path):
    return EmbeddingsFolder(shutil.copytree(embedded, tmp_path / "out"))


@pytest.fixture
def taken(monkeypatch):
    """The files that a model embeds, in their order."""
    files, original = [], RunModel.embed_images

    def embed(self, paths, *more):
        files.extend(paths)
        return original(self, paths, *more)

    monkeypatch.setattr(RunModel, "embed_images", embed)
    return files


def contents(path):
    """The paths, labels and embeddings of a folder."""
    found = Embeddings.read(path)
    return found.paths, found.labels, found.vectors


def test_are_those_of_the_evaluation(finished_run, embedded):
    run = Run(finished_run)
    splits = run.splits
    expected, labels, *_ = run.test_embeddings()
    paths, names, embeddings = contents(embedded)
    rows = [paths.index(path) for path in splits.test.paths]
    np.testing.assert_allclose(embeddings[rows], expected, atol=1e-6)
    assert [names[row] for row in rows] == [splits.test.class_names[label] for label in labels]


def test_the_metadata_say_what_they_are(finished_run, embedded):
    [shard, *_] = EmbeddingsFolder.open(embedded).shards()
    columns = shard["file_size"], shard["file_time"]
    for path, size, time in zip(shard["path"].to_pylist(), *columns, strict=True):
        assert size.as_py() == os.path.getsize(path) and time.value == os.stat(path).st_mtime_ns
    metadata = EmbeddingsFolder.open(embedded).metadata()
    assert metadata.model.sha256 == file_sha256(finished_run / "model.keras")
    assert metadata.model.recipe == "digits" and metadata.dim == 8
    assert vars(metadata.model.preprocessing) == {"image_size": 16, "resize": 18}
    assert metadata.outcome.embedded == 80 and metadata.outcome.corrupt == 0
    assert metadata.metric == "euclidean" and metadata.images.listed == 80
    np.testing.assert_allclose(metadata.outcome.lengths, 1, atol=1e-5)
    names = [".lock", *(f"embeddings-{i:05}.parquet" for i in range(5)), "embeddings.json"]
    assert sorted(path.name for path in embedded.iterdir()) == names


def test_after_a_kill_what_is_lost_is_computed(finished_run, images, embedded, tmp_path, taken):
    out = EmbeddingsFolder(tmp_path / "out")
    arguments = ["embed", finished_run, images, "--out", out.path, "--shard-size", "16"]
    run_stopped(*arguments, at=".parquet", count=4)
    with pytest.raises(ValueError, match="is not complete: gsp-tf embed was stopped"):
        EmbeddingsFolder.open(out.path)
    out.shard_path(0).unlink()
    assert [out.shard_path(i).exists() for i in range(5)] == [False, True, True, False, False]
    embed_images(finished_run, [images], out.path)
    paths, labels, embeddings = contents(out.path)
    expected_paths, expected_labels, expected = contents(embedded)
    assert paths == expected_paths and labels == expected_labels and len(set(paths)) == 80
    np.testing.assert_allclose(embeddings, expected, atol=1e-6)
    assert taken == [*paths[:16], *paths[48:]]
    names = [path.name for path in sorted(out.path.iterdir())]
    assert names == [path.name for path in sorted(embedded.iterdir())]


def test_what_is_complete_is_not_computed_again(finished_run, images, own, monkeypatch):
    monkeypatch.setattr(RunModel, "embed_images", None)
    assert embed_images(finished_run, [images], own.path).metadata() == own.metadata()
    own.shard_path(3).unlink()
    with pytest.raises(FileNotFoundError, match="lacks embeddings-00003.parquet"):
        EmbeddingsFolder.open(own.path)


def test_files_that_changed_are_computed_again(digits_run, images, tmp_path, taken):
    folder = shutil.copytree(images, tmp_path / "in")
    [broken, other, *_] = sorted(folder.rglob("*.png"))
    whole = broken.read_bytes()
    broken.write_bytes(whole[:90])
    with pytest.warns(UserWarning, match="1 of 80 files cannot be read"):
        out = embed_images(digits_run, [folder], tmp_path / "out", shard_size=16)
    before = contents(out)
    broken.write_bytes(whole)
    taken.clear()
    embed_images(digits_run, [folder], out)
    paths, _, embeddings = contents(out)
    assert taken == paths[:16] and paths[0] == str(broken) and not out.corrupt_path.exists()
    np.testing.assert_allclose(embeddings[1:], before[2], atol=1e-6)
    shutil.copy(paths[-1], other)  # another photograph under the same name
    embed_images(digits_run, [folder], out)
    embeddings = contents(out)[2]
    assert taken[16:] == paths[:16] and out.metadata().outcome.embedded == 80
    np.testing.assert_allclose(embeddings[1], embeddings[-1], atol=1e-6)


def test_files_that_are_no_images_are_listed_and_left_out(digits_run, images, tmp_path, command):
    folder = shutil.copytree(images, tmp_path / "in")
    broken = {
        folder / "<b>1" / "text.png": b"not an image",
        folder / "<b>1" / "empty.jpg": b"",
        folder / "<b>2" / "cut.png": sorted((folder / "<b>2").iterdir())[0].read_bytes()[:90],
    }
    for path, content in broken.items():
        path.write_bytes(content)
    odd = os.fsdecode(os.fsencode(folder / "<b>3") + b"/k\xe4se.png")
    shutil.copy(next((folder / "<b>3").iterdir()), odd)
    code, output, errors = command("embed", digits_run, folder, "--out", tmp_path / "out")
    assert code == 0 and "80 images of dimension 8" in output
    assert "4 of 84 files cannot be read" in errors and "the file is empty" in errors
    with open(tmp_path / "out" / "corrupt.csv", newline="", encoding="utf-8") as file:
        rows = {row["path"]: row["reason"] for row in csv.DictReader(file)}
    assert len(rows) == 4 and set(map(str, broken)) <= set(rows)
    assert "not Unicode text" in rows[str(folder / "<b>3" / "k\\xe4se.png").replace("xe4", "udce4")]
    paths, labels, _ = contents(tmp_path / "out")
    assert len(paths) == 80 and not set(map(str, broken)) & set(paths)
    assert all(label == path.split("/")[-2] for path, label in zip(paths, labels, strict=True))


def test_another_model_preprocessing_or_list_is_refused(digits_run, images, own, tmp_path):
    other = with_another_model(digits_run, tmp_path / "other")
    with pytest.raises(ValueError, match="models are of .*other and .*run. Choose another"):
        embed_images(other, [images], own.path)
    with pytest.raises(ValueError, match="list of images: 80 there, 8 now. .*--out NEW.*--add NEW"):
        embed_images(digits_run, [images / "<b>1"], own.path)
    edit_recipe(digits_run, "resize: 18", "resize: 20")
    with pytest.raises(ValueError, match="preprocessing is .*20.* and .*18.*--out NEW"):
        embed_images(digits_run, [images], own.path)


def test_two_processes_do_not_write_one_folder(finished_run, images, tmp_path, locked_elsewhere):
    out = tmp_path / "new"
    with locked_elsewhere(out), pytest.raises(BlockingIOError, match="Another process"):
        embed_images(finished_run, [images], out)
    assert not EmbeddingsFolder(out).metadata_path.exists()


@pytest.mark.parametrize(
    ("name", "noted"), [("corrupt", "[1]"), ("corrupt", "[" * 100_000), ("lengths", '["long"]')]
)
def test_damaged_notes_of_shards_are_named(own, name, noted):
    path = own.shard_path(0)
    table = pq.read_table(path)
    notes = {**table.schema.metadata, name.encode(): noted, b"seal": UNSEALED}
    content = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(notes), content)
    path.write_bytes(sealed(content.getvalue()))
    with pytest.raises(ValueError, match="embeddings-00000.parquet is damaged: its notes"):
        own.summarize_shard(0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "does not describe gsp_tf embeddings; received format None"),
        ('{"a":' * 100_000, "embeddings.json is damaged: it is nested too deeply"),
        ('{"format": "gsp_tf embeddings", "format_version": 9}', "format version 9"),
        ('{"format": "gsp_tf embeddings", "format_version": 2}', "it has no checksum of its own"),
        ({"dim": 0}, "embeddings.json is damaged: dim is 0"),
        ({"images": {"listed": 1.5, "sha256": ""}}, "listed is 1.5"),
        ({"images": {"listed": True, "sha256": ""}}, "listed is True"),
        ({"outcome": {"embedded": 1, "corrupt": 0, "lengths": [1]}}, "lengths must be two"),
    ],
)
def test_damaged_metadata_are_refused(own, content, message):
    if isinstance(content, dict):
        edit_json(own.metadata_path, **content)
    else:
        own.metadata_path.write_text(content)
    with pytest.raises(ValueError, match=message):
        EmbeddingsFolder.open(own.path)


def test_pixels_are_embedded_like_the_file_that_holds_them(run, tmp_path):
    rng = np.random.default_rng(0)
    pixels = [rng.integers(0, 255, (*size, 3), np.uint8) for size in ((40, 30), (1, 50), (25, 90))]
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    model = RunModel(run.path)
    expected = model.embed_images([str(tmp_path / f"{n}.png") for n in range(3)]).embeddings
    found = model.embed_images(pixels)
    assert found.problems == [""] * 3
    np.testing.assert_allclose(found.embeddings, expected, atol=1e-6)
    wrong = [pixels[0] / 255, pixels[0][..., 0], pixels[0][..., :1], pixels[0][:0]]
    found = model.embed_images([pixels[0], *wrong])
    said = [f"pixels must be uint8 (H, W, 3); received {x.dtype} {x.shape}" for x in wrong]
    assert found.problems[1:] == said
    np.testing.assert_allclose(found.embeddings[0], expected[0], atol=1e-6)
    assert model.embed_images([]).embeddings.shape == (0, 8)
