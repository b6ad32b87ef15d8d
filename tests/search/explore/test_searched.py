import shutil

import numpy as np
import pytest
from embedded import edit_recipe, with_another_model

from gsp_tf.runs import Run, RunFolder, load_splits
from gsp_tf.search import RunModel, open_index
from gsp_tf.search.explore._searched import NoImages, TestImages, open_images


def test_without_an_index_the_test_images_of_the_run_are_searched(model, test_images):
    assert isinstance(test_images, TestImages)
    assert test_images.summary == "24 test images of the run"
    test = load_splits(model.recipe).test
    nearest = test_images.nearest(model.embed_images(test.paths[5]).embeddings, 4)
    assert [one.rank for one in nearest] == [1, 2, 3, 4]
    assert test.paths[5].endswith(nearest[0].path) and nearest[0].distance < 1e-3
    assert nearest[0].label == test.class_names[test.labels[5]]


def test_embeddings_that_the_evaluation_kept_are_searched(run, test_images, tmp_path, monkeypatch):
    own = shutil.copytree(run, tmp_path / "run")
    Run(own).evaluate()
    monkeypatch.setattr("gsp_tf.runs.run.embed_test_images", None)
    query = np.zeros((1, 8))
    found, expected = (x.nearest(query, 24) for x in (open_images(RunModel(own)), test_images))
    assert {one.path for one in found} == {one.path for one in expected}
    np.testing.assert_allclose(*([one.distance for one in x] for x in (found, expected)), 1e-4)


def test_an_index_of_another_model_is_refused(run, index, tmp_path):
    other = RunModel(with_another_model(run, tmp_path / "other"))
    with pytest.raises(ValueError, match="do not belong together: the model"):
        open_images(other, index)
    with pytest.raises(FileNotFoundError, match="index"):
        open_images(other, tmp_path)


def test_images_of_an_index_that_are_gone_are_left_out_of_a_sample(run, model, index, images):
    gone = images / "<b>3"
    gone.rename(images.parent / "elsewhere")
    try:
        found = open_images(model, index)
        sample = found.sample(100)
        assert len(sample.indices) == len(sample.names) == 72 and "<b>3" not in sample.labels
        nearest = found.nearest(np.zeros((1, 8)), 80)
        problems = [found.tile(one).problem for one in nearest if one.label == "<b>3"]
        assert problems == ["there is no such file"] * 8
    finally:
        (images.parent / "elsewhere").rename(gone)
    assert len(open_index(run, index)) == 80 and len(found.sample(11).names) == 11


def test_without_data_there_is_a_reason(run, tmp_path, capsys):
    own = shutil.copytree(run, tmp_path / "run")
    edit_recipe(own, f"path: {RunFolder(own).recipe().data.path}\n", f"path: {tmp_path / 'gone'}\n")
    found = open_images(RunModel(own))
    assert isinstance(found, NoImages) and len(found) == 0
    assert str(tmp_path / "gone") in capsys.readouterr().err
    assert str(tmp_path) not in found.summary and "the terminal says why" in found.summary
    assert "gsp-tf embed" in found.summary and "gsp-tf index" in found.summary
