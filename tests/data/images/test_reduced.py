import os
import shutil

import numpy as np
import pytest
from PIL import Image

from gsp_tf.data import FileImages, evaluation_dataset, read_image, reduce_images


@pytest.fixture
def files(tmp_path):
    """Five images of different shapes, in files."""
    rng = np.random.default_rng(0)
    paths = []
    for number, shape in enumerate([(30, 40), (40, 30), (64, 64), (8, 9), (20, 300)]):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(rng.integers(0, 256, (*shape, 3), np.uint8)).save(paths[-1])
    return FileImages(paths, [0, 0, 1, 1, 1], ["a", "b"], ["x", "y"])


def copies(folder):
    return sorted(folder.glob("*/*"))


@pytest.mark.parametrize("channels", [1, 3])
def test_copies_hold_the_reduced_pixels(files, tmp_path, channels):
    files = FileImages(files.paths, files.labels, files.class_names, files.groups, channels)
    reduced = reduce_images(files, tmp_path / "copies", shorter_side=16)
    shapes = [reduced.image(index).shape for index in range(5)]
    assert [shape[:2] for shape in shapes] == [(16, 21), (21, 16), (16, 16), (8, 9), (16, 240)]
    np.testing.assert_array_equal(reduced.image(3), read_image(files.paths[3], channels))
    image = Image.open(files.paths[0]).convert("L" if channels == 1 else "RGB")
    expected = np.asarray(image.resize((21, 16), Image.Resampling.BILINEAR)).reshape(16, 21, -1)
    np.testing.assert_array_equal(reduced.image(0), expected)
    np.testing.assert_array_equal(reduced.labels, files.labels)
    assert (reduced.class_names, reduced.groups) == (files.class_names, files.groups)
    part = reduced.subset([1])
    assert len(part) == 3 and part.class_names == ("b",)
    np.testing.assert_array_equal(part.image(1), reduced.image(3))
    assert reduced.paths == files.paths and part.paths == files.paths[2:]
    for path in files.paths:  # batches come from the copies
        os.unlink(path)
    ((images, _),) = evaluation_dataset(part, 8, 3)
    ((of_all, _),) = evaluation_dataset(reduced, 8, 5)
    np.testing.assert_array_equal(images, of_all[2:])


def test_copies_are_made_once_and_again_for_a_changed_file(files, tmp_path, monkeypatch):
    folder = tmp_path / "copies"
    reduce_images(files, folder, 16)
    before = {path: path.stat().st_mtime_ns for path in copies(folder)}
    assert len(before) == 5
    monkeypatch.setattr("gsp_tf.data.images._reduced.read_image", None)
    reduce_images(files, folder, 16)
    monkeypatch.undo()
    assert {path: path.stat().st_mtime_ns for path in copies(folder)} == before
    Image.new("RGB", (16, 16), "red").save(files.paths[0])
    assert (reduce_images(files, folder, 16).image(0) == [255, 0, 0]).all()
    assert len(copies(folder)) == 6
    reduce_images(files, folder, 12)
    assert len(copies(folder)) == 11


def test_an_image_is_found_again_by_its_file_and_size_wherever_its_copy_is(files, tmp_path):
    def identities(images=files, folder="copies", side=16):
        reduced = reduce_images(images, tmp_path / folder, side)
        return [reduced.identity(index) for index in range(len(reduced))]

    found = identities()
    assert len(set(found)) == 5
    shutil.rmtree(tmp_path / "copies")
    assert found == identities() == identities(folder="others")
    grey = FileImages(files.paths, files.labels, files.class_names, channels=1)
    assert not set(found) & {*identities(grey), *identities(side=12)}
    assert identities(files.subset([1])) == found[2:]
    Image.new("RGB", (16, 16), "red").save(files.paths[0])
    changed = identities()
    assert changed[0] not in found and changed[1:] == found[1:]


def test_unreadable_images_are_named_and_counted(files, tmp_path):
    for index in (1, 3):
        with open(files.paths[index], "r+b") as file:
            file.truncate(60)
    with pytest.raises(ValueError, match="2 of 5 files cannot be read") as caught:
        reduce_images(files, tmp_path / "copies", 16)
    assert files.paths[1] in str(caught.value) and files.paths[3] in str(caught.value)
    assert len(copies(tmp_path / "copies")) == 3
