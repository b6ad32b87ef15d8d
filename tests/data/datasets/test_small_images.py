"""CIFAR-10, CIFAR-100, their collages and MNIST, on miniatures in the official layouts."""

import gzip

import numpy as np
import pytest
from miniatures import DIGITS, HUNDRED, SUPER_NAMES, TEN, TEN_NAMES, cifar_record, write_idx

from gsp_tf.data import load_cifar_collage

FINE_NAMES = [f"fine_{i:02}" for i in range(100)]
ROW_23 = 2 * [23 * [0] + [24] + 4 * [0]]  # in two columns of a digit
BACKGROUND = {SUPER_NAMES[i] for i in (2, 9, 10, 17)}


@pytest.mark.parametrize(
    ("miniature", "names", "groups", "shape", "place", "pixels"),
    [
        (TEN, TEN_NAMES, [""] * 10, (60, 32, 32, 3), np.s_[57, 0, :2], [[255, 0, 0], [5, 7, 9]]),
        (HUNDRED, FINE_NAMES, SUPER_NAMES * 5, (300, 32, 32, 3), np.s_[142, 5, 5], [42, 2, 1]),
        (DIGITS, "0123456789", [""] * 10, (30, 28, 28, 1), np.s_[23, :, [0, 27], 0], ROW_23),
    ],
)
def test_names_groups_labels_and_pixels(tmp_path, miniature, names, groups, shape, place, pixels):
    miniature.write(tmp_path)
    images = miniature.load(tmp_path, counts=miniature.counts)
    assert (images.class_names, images.groups) == (tuple(names), tuple(groups))
    np.testing.assert_array_equal(images.labels, np.arange(shape[0]) % len(names))
    assert images.images.shape == shape
    np.testing.assert_array_equal(images.images[place], pixels)


NOT_IDX = "not the header and content of an IDX file"
MNIST_IMAGES, MNIST_LABELS = "train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"


@pytest.mark.parametrize(
    ("miniature", "name", "change", "message"),
    [
        (TEN, "cifar-10-batches-bin/test_batch.bin", lambda whole: bytes(30729),
         r"test_batch\.bin is broken: 30729 bytes.*records of 3073"),
        (TEN, "cifar-10-batches-bin/test_batch.bin", lambda whole: cifar_record(11),
         r"labels up to \[11\] for \[10\] names"),
        (HUNDRED, "cifar-100-binary/test.bin", lambda whole: cifar_record(1, 0),
         "100 classes occur in 101 pairs"),
        *((DIGITS, MNIST_IMAGES, lambda whole, kept=kept: whole[:kept],
           r"train-images-idx3-ubyte\.gz is broken.*download") for kept in (0, -20)),
        (DIGITS, MNIST_LABELS, lambda whole: gzip.compress(b""), NOT_IDX),
        (DIGITS, MNIST_LABELS, lambda whole: gzip.compress(b"\0\0\x08\x01\0\0\0\x05abc"), NOT_IDX),
    ],
)  # fmt: skip
def test_broken_files(tmp_path, miniature, name, change, message):
    miniature.write(tmp_path)
    path = tmp_path / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        miniature.load(tmp_path, counts=miniature.counts)


@pytest.mark.parametrize(
    ("labels", "message"),
    [(np.arange(9), "30 images, 29 labels"), (np.arange(10) + 1, "30 labels up to 10")],
)
def test_images_and_labels_of_mnist_that_do_not_fit(tmp_path, labels, message):
    DIGITS.write(tmp_path)
    write_idx(tmp_path / MNIST_LABELS, labels)
    with pytest.raises(ValueError, match=message):
        DIGITS.load(tmp_path, counts=DIGITS.counts)


def test_collages(tmp_path):
    HUNDRED.write(tmp_path)
    sets = load_cifar_collage(tmp_path, counts=HUNDRED.counts)
    assert list(sets) == ["train", "validation", "test"]
    for images, per_group in zip(sets.values(), (2, 1, 2), strict=True):
        assert set(images.background.groups) == BACKGROUND
        assert set(images.groups) == set(SUPER_NAMES) - BACKGROUND
        for part, num_groups in ((images.foreground, 16), (images.background, 4)):
            groups, counts = np.unique(part.groups, return_counts=True)
            assert len(groups) == num_groups and (counts == per_group).all()
        assert len(images) == 3 * 16 * per_group
    used = [name for images in sets.values() for name in images.class_names]
    clutter = [name for images in sets.values() for name in images.background.class_names]
    assert sorted(used + clutter) == FINE_NAMES
    fish = [[n for n in images.class_names if int(n[5:]) % 20 == 1] for images in sets.values()]
    assert fish == [["fine_01", "fine_21"], ["fine_41"], ["fine_61", "fine_81"]]
    path = tmp_path / "cifar-100-binary" / "coarse_label_names.txt"
    path.write_text(path.read_text().replace("trees", "shrubs"))
    with pytest.raises(ValueError, match="Cifar Collage needs.*received.*'shrubs': 5"):
        load_cifar_collage(tmp_path, counts=HUNDRED.counts)
