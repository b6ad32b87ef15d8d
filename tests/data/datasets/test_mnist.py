import gzip

import numpy as np
import pytest
from miniatures import DIGITS, write_idx

from gsp_tf.data import load_mnist


@pytest.fixture
def digits(tmp_path):
    DIGITS.write(tmp_path)
    return tmp_path


def test_labels_and_pixels(digits):
    images = load_mnist(digits, counts=DIGITS.counts)
    assert images.class_names == tuple("0123456789")
    np.testing.assert_array_equal(images.labels, np.tile(np.arange(10), 3))
    assert images.image(23).shape == (28, 28, 1)
    np.testing.assert_array_equal(images.image(23)[23, :, 0], [24] * 28)
    assert images.image(23).sum() == 24 * 28


@pytest.mark.parametrize("kept", [0, -20])
def test_a_truncated_archive(digits, kept):
    path = digits / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz is broken.*download"):
        load_mnist(digits, counts=DIGITS.counts)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x08\x01\0\0\0\x05abc",
    ],
)
def test_content_that_is_not_idx(digits, content):
    (digits / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match="not the header and content of an IDX file"):
        load_mnist(digits, counts=DIGITS.counts)


@pytest.mark.parametrize(
    ("labels", "message"),
    [(np.arange(9), "30 images, 29 labels"), (np.arange(10) + 1, "30 labels up to 10")],
)
def test_images_and_labels_that_do_not_fit(digits, labels, message):
    write_idx(digits / "t10k-labels-idx1-ubyte.gz", labels)
    with pytest.raises(ValueError, match=message):
        load_mnist(digits, counts=DIGITS.counts)
