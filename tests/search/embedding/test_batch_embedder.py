import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from embedded import edit_recipe
from encoded_images import encoded
from PIL import Image

from gsp_tf.search import BatchEmbedder, RunModel, embed_images
from gsp_tf.search._tables import vectors_of


@pytest.fixture(scope="module")
def embedded(run, recipe_file, tmp_path_factory):
    """Paths of JPEG and PNG files and their embeddings, by `embed_images`."""
    images, out = recipe_file.parent / "images", tmp_path_factory.mktemp("embedded") / "out"
    [shard] = embed_images(run.path, [images], out).shards()
    return shard["path"].to_pylist(), vectors_of(shard)


@pytest.fixture(scope="module")
def embedder(run):
    return BatchEmbedder(run.path)


@pytest.mark.parametrize("column", ["path", "bytes"])
def test_embeddings_are_those_of_embed_images(embedder, embedded, column, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    paths, expected = embedded
    batch = {"path": np.array(paths, object), "id": np.arange(len(paths))}
    if column == "bytes":
        batch["bytes"] = np.array([Path(path).read_bytes() for path in paths], object)
        batch["path"] = np.array(["no/such/file"] * len(paths), object)
    result = embedder(batch)
    assert set(result) == {"path", "id", "embedding", "problem"}
    assert result["embedding"].dtype == np.float32
    np.testing.assert_allclose(result["embedding"], expected, atol=1e-6)
    assert result["problem"].tolist() == [""] * len(paths)
    assert result["path"] is batch["path"] and result["id"] is batch["id"]


def test_what_cannot_be_read_has_a_problem_and_no_embedding(embedder, embedded, tmp_path):
    paths, expected = embedded
    (tmp_path / "text.jpg").write_text("no")
    rows = [str(tmp_path / "gone.jpg"), paths[0], str(tmp_path / "text.jpg"), None, paths[1]]
    result = embedder({"path": rows})
    problems = result["problem"].tolist()
    assert problems[:2] == ["there is no such file", ""]
    assert problems[2].startswith("not an image of an accepted format")
    assert problems[3:] == ["it is missing", ""]
    np.testing.assert_allclose(result["embedding"][[1, 4]], expected[:2], atol=1e-6)
    assert np.isnan(result["embedding"][[0, 2, 3]]).all()
    result = embedder({"bytes": [None, b"", b"text"]})
    assert result["problem"].tolist()[0] == "it is missing" and all(result["problem"])
    assert result["embedding"].shape == (3, 8) and np.isnan(result["embedding"]).all()


def test_what_only_pillow_decodes_is_left_out(run, embedded, tmp_path, monkeypatch):
    """No file is known that passes the check and does not decode; this one passes half of it."""
    monkeypatch.setattr("gsp_tf.data.images.decode._ends_early", lambda *_: False)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    content = encoded(Image.fromarray(noise))
    marker = b"\xff\xe3\xff\xff"  # of a segment that is longer than the rest of the file
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(content[:1000] + marker + content[1000:])
    run = shutil.copytree(run.path, tmp_path / "run")
    edit_recipe(run, "resize: 18", "resize: null")
    model, paths = RunModel(run), embedded[0][:2]
    embeddings, problems = model.embed_images([paths[0], str(broken), paths[1]])
    assert problems == ["", "TensorFlow cannot decode it", ""]
    np.testing.assert_allclose(embeddings[[0, 2]], model.embed_images(paths)[0], atol=1e-6)
    for one in ([Path(paths[0])], paths[0]):  # not its letters
        alone = model.embed_images(one).embeddings
        np.testing.assert_allclose(alone, embeddings[:1], atol=1e-6)
    assert np.isnan(embeddings[1]).all()


def test_the_threads_are_set_before_the_model_is_loaded(run, monkeypatch):
    threads = {}
    for kind in ("intra", "inter"):
        name = f"set_{kind}_op_parallelism_threads"
        monkeypatch.setattr(
            tf.config.threading, name, lambda n, kind=kind: threads.update({kind: n})
        )
    embedder = pickle.loads(pickle.dumps(BatchEmbedder(run.path, threads=3)))
    assert not threads
    assert embedder.model.dim == 8 and threads == {"intra": 3, "inter": 3}
