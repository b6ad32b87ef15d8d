import gzip

import numpy as np
import pytest

from gsp_tf.data import load_mnist, mnist
from gsp_tf.experiment import load_splits
from gsp_tf.recipe import DataRecipe, ProtocolRecipe, Recipe

COUNTS = {"all": (10, 30)}


def write_idx(path, array):
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


@pytest.fixture
def digits(tmp_path):
    """Twenty training and ten test images; of image i, row i % 28 is i + 1."""
    for name, start, stop in (("train", 0, 20), ("t10k", 20, 30)):
        numbers = np.arange(start, stop)
        pixels = np.zeros((len(numbers), 28, 28), np.uint8)
        pixels[np.arange(len(numbers)), numbers % 28] = numbers[:, None] + 1
        write_idx(tmp_path / f"{name}-images-idx3-ubyte.gz", pixels)
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte.gz", numbers % 10)
    return tmp_path


def test_labels_and_pixels(digits):
    images = load_mnist(digits, counts=COUNTS)
    assert images.class_names == tuple("0123456789")
    np.testing.assert_array_equal(images.labels, np.tile(np.arange(10), 3))
    assert images.image(23).shape == (28, 28, 1)
    np.testing.assert_array_equal(images.image(23)[23, :, 0], [24] * 28)
    assert images.image(23).sum() == 24 * 28


@pytest.mark.parametrize(("protocol", "num_test"), [("fractions", 4), ("conventional", 5)])
def test_in_a_recipe(digits, published, protocol, num_test):
    published(load_mnist, COUNTS)
    data = DataRecipe("mnist", str(digits), image_size=28)
    splits = load_splits(Recipe(data=data, protocol=ProtocolRecipe(protocol)))
    assert len(splits.test.class_names) == num_test
    assert splits.train.channels == 1


def test_the_published_counts_are_expected(digits):
    with pytest.raises(ValueError, match="30 images, expected 10 classes and 70,000 images"):
        load_mnist(digits)


def test_a_missing_file(digits):
    (digits / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"t10k-labels-idx1-ubyte\.gz does not exist"):
        load_mnist(digits, counts=COUNTS)


@pytest.mark.parametrize("kept", [0, 2, 15, -20])
def test_a_truncated_archive(digits, kept):
    path = digits / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz is broken.*download"):
        load_mnist(digits, counts=COUNTS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x08",
        b"\0\0\x08\x03\0\0",
        b"\0\0\x08\x01\0\0\0\x05abc",
        b"\0\0\x0d\x01\0\0\0\x01a",
        b"<html>",
    ],
)
def test_content_that_is_not_idx(digits, content):
    (digits / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match="not the header and content of an IDX file"):
        load_mnist(digits, counts=COUNTS)


def test_images_and_labels_that_do_not_fit(digits):
    write_idx(digits / "t10k-labels-idx1-ubyte.gz", np.arange(9))
    with pytest.raises(ValueError, match="30 images, 29 labels"):
        load_mnist(digits, counts=COUNTS)
    write_idx(digits / "t10k-labels-idx1-ubyte.gz", np.arange(10) + 1)
    with pytest.raises(ValueError, match="30 labels up to 10"):
        load_mnist(digits, counts=COUNTS)


def test_download_of_what_is_missing(digits, tmp_path, monkeypatch):
    remotes = [
        remote._replace(url=(digits / remote.name).as_uri(), md5=None)
        for remote in mnist._SOURCE.remotes
    ]
    (tmp_path / "new").mkdir()
    (digits / remotes[0].name).rename(tmp_path / "new" / remotes[0].name)
    monkeypatch.setattr(mnist, "_SOURCE", mnist._SOURCE._replace(remotes=tuple(remotes)))
    assert len(load_mnist(tmp_path / "new", download=True, counts=COUNTS)) == 30
