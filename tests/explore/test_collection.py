import shutil

import numpy as np
import pytest
from embedded import save_run

from gsp_tf.experiment import Run, load_splits
from gsp_tf.explore import collection
from gsp_tf.explore.collection import IndexedImages, NoImages, TestImages, open_collection
from gsp_tf.serving import open_index, search
from gsp_tf.serving.run_model import RunModel


def test_without_an_index_the_test_images_of_the_evaluation_are_searched(model, test_images):
    assert isinstance(test_images, TestImages)
    assert test_images.summary == "24 test images of the run"
    run = Run(model.folder.path)
    splits = run.splits
    embeddings, labels, *_ = run.test_embeddings()
    nearest = test_images.nearest(embeddings[5:6], 4)
    distances = np.linalg.norm(embeddings - embeddings[5], axis=1)
    np.testing.assert_allclose([one.distance for one in nearest], np.sort(distances)[:4], atol=1e-3)
    assert [one.rank for one in nearest] == [1, 2, 3, 4]
    assert splits.test.paths[5].endswith(nearest[0].tile.name)
    assert nearest[0].label == splits.test.class_names[labels[5]]


def test_of_many_test_images_a_sample_is_searched(model, monkeypatch):
    monkeypatch.setattr(collection, "MAX_TEST_IMAGES", 9)
    found = open_collection(model)
    assert len(found) == 9
    assert found.summary == "9 test images of the run, a random sample of 24"
    names = {path.rsplit("/")[-1] for path in load_splits(model.recipe).test.paths}
    nearest = found.nearest(np.zeros((1, 8)), 9)
    assert len({one.tile.name for one in nearest} & names) == 9


def test_an_index_finds_what_search_finds(run, model, index, images):
    query = sorted((images / "<b>7").iterdir())[3]
    found = open_collection(model, index)
    assert isinstance(found, IndexedImages)
    assert found.summary == f"80 images in {index.parent.name}/{index.name}"
    nearest = found.nearest(model.embed_files([str(query)]), 3)
    expected = search(run, query, index, k=3)
    assert [(one.rank, one.label) for one in nearest] == [(n.rank, n.label) for n in expected]
    assert nearest[0].tile.name == query.name and nearest[0].distance < 1e-3


def test_the_index_in_the_run_comes_first(run, index, tmp_path):
    own = shutil.copytree(run, tmp_path / "run")
    shutil.copytree(index, own / "index")
    assert isinstance(open_collection(RunModel(own)), IndexedImages)


def test_an_index_of_another_model_is_refused(index, images, tmp_path):
    other = RunModel(save_run(tmp_path / "other", images, seed=1, pooling="gsp"))
    with pytest.raises(ValueError, match="do not belong together: the model"):
        open_collection(other, index)
    with pytest.raises(FileNotFoundError, match="is no index"):
        open_collection(other, tmp_path)


def test_images_of_an_index_that_are_gone_are_left_out_of_a_sample(run, model, index, images):
    gone = images / "<b>3"
    gone.rename(images.parent / "elsewhere")
    try:
        found = open_collection(model, index)
        sample = found.sample(100)
        assert len(sample.indices) == len(sample.names) == 72 and "<b>3" not in sample.labels
        nearest = found.nearest(np.zeros((1, 8)), 80)
        problems = [one.tile.problem for one in nearest if one.label == "<b>3"]
        assert problems == ["there is no such file"] * 8
    finally:
        (images.parent / "elsewhere").rename(gone)
    assert len(open_index(run, index)) == 80 and len(found.sample(11).names) == 11


def test_without_data_there_is_a_reason(run, tmp_path):
    own = shutil.copytree(run, tmp_path / "run")
    recipe = (own / "recipe.yaml").read_text("utf-8")
    lines = [
        f"  path: {tmp_path / 'gone'}" if line.startswith("  path:") else line
        for line in recipe.splitlines()
    ]
    (own / "recipe.yaml").write_text("\n".join(lines), "utf-8")
    found = open_collection(RunModel(own))
    assert isinstance(found, NoImages) and len(found) == 0
    assert str(tmp_path / "gone") in found.summary
    assert "gsp-tf embed" in found.summary and "gsp-tf index" in found.summary
