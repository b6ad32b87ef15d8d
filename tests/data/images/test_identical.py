import numpy as np
import pytest

from gsp_tf.data import (
    ArrayImages,
    FileImages,
    identical_files,
    identical_images,
    shared_images,
)
from gsp_tf.data.images import _identical


@pytest.fixture
def files(tmp_path):
    """Files with the contents `contents`; the link `e` leads to `a`."""
    for name, content in zip("abcd", ("same", "diff", "same", "longer"), strict=True):
        (tmp_path / name).write_text(content)
    (tmp_path / "e").symlink_to(tmp_path / "a")
    return [tmp_path / name for name in "abcdef"]


def test_files_with_the_same_bytes_have_the_same_number(files, tmp_path):
    a, b, c, d, e, missing = identical_files(files)
    assert a == c == e and len({a, b, d}) == 3 and min(a, b, d) >= 0 and missing == -1
    assert identical_files([tmp_path])[0] == -1 and identical_files([]).shape == (0,)


def test_only_files_of_the_same_size_are_read(files, monkeypatch):
    read = []
    monkeypatch.setattr(_identical, "file_sha256", lambda path: read.append(path[-1]) or path[-1])
    identical_files(files)
    assert sorted(read) == ["a", "b", "c"]


def test_files_are_not_compared_with_images_in_memory(files):
    of_files = FileImages(files[:3], [0, 0, 0], ["a"])
    numbers = identical_images([of_files])
    assert numbers[0] == numbers[2] != numbers[1]
    in_memory = ArrayImages(np.zeros((1, 5, 5, 3), "uint8"), [0], ["a"])
    assert identical_images([of_files, in_memory]) is None


def test_sets_share_groups_not_images_without_a_group():
    groups = np.array([3, 3, 5, -1, 3, 5, -1, 8])
    sets = ["train", "train", "train", "train", "test", "validation", "test", "test"]
    found = shared_images(groups, sets)
    assert {pair: [rows.tolist() for rows in both] for pair, both in found.items()} == {
        ("train", "test"): [[0, 1], [4]],
        ("train", "validation"): [[2], [5]],
    }
