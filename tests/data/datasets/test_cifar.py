import numpy as np
import pytest
from miniatures import HUNDRED, SUPER_NAMES, TEN, TEN_NAMES, cifar_record

from gsp_tf.data import load_cifar10, load_cifar100, load_cifar_collage

BACKGROUND = {SUPER_NAMES[i] for i in (2, 9, 10, 17)}


@pytest.fixture
def ten(tmp_path):
    TEN.write(tmp_path)
    return tmp_path


@pytest.fixture
def hundred(tmp_path):
    HUNDRED.write(tmp_path)
    return tmp_path


def test_cifar10(ten):
    images = load_cifar10(ten, counts=TEN.counts)
    assert images.class_names == tuple(TEN_NAMES)
    np.testing.assert_array_equal(images.labels, np.tile(np.arange(10), 6))
    assert images.images.shape == (60, 32, 32, 3)
    assert images.image(57)[0, :2].tolist() == [[255, 0, 0], [5, 7, 9]]


def test_cifar100_has_its_super_classes(hundred):
    images = load_cifar100(hundred, counts=HUNDRED.counts)
    assert images.class_names[99] == "fine_99"
    assert images.groups == tuple(SUPER_NAMES * 5)
    np.testing.assert_array_equal(images.labels, np.tile(np.arange(100), 3))
    assert images.image(142)[5, 5].tolist() == [42, 2, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(30729), r"test_batch\.bin is broken: 30729 bytes.*records of 3073"),
        (cifar_record(11), r"labels up to \[11\] for \[10\] names"),
    ],
)
def test_broken_records(ten, content, message):
    (ten / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_cifar10(ten, counts=TEN.counts)


def test_a_class_of_two_super_classes(hundred):
    (hundred / "cifar-100-binary" / "test.bin").write_bytes(cifar_record(1, 0))
    with pytest.raises(ValueError, match="100 classes occur in 101 pairs"):
        load_cifar100(hundred, counts=HUNDRED.counts)


def test_collage_splits(hundred):
    sets = load_cifar_collage(hundred, counts=HUNDRED.counts)
    assert list(sets) == ["train", "validation", "test"]
    for images, per_group in zip(sets.values(), (2, 1, 2), strict=True):
        assert set(images.background.groups) == BACKGROUND
        assert set(images.groups) == set(SUPER_NAMES) - BACKGROUND
        for part, num_groups in ((images.foreground, 16), (images.background, 4)):
            assert len(part.class_names) == per_group * num_groups
            groups, counts = np.unique(part.groups, return_counts=True)
            assert len(groups) == num_groups and (counts == per_group).all()
        assert len(images) == 3 * 16 * per_group
    used = [name for images in sets.values() for name in images.class_names]
    clutter = [name for images in sets.values() for name in images.background.class_names]
    assert sorted(used + clutter) == [f"fine_{i:02}" for i in range(100)]
    fish = [
        [
            name
            for name, group in zip(images.class_names, images.groups, strict=True)
            if group == "fish"
        ]
        for images in sets.values()
    ]
    assert fish == [["fine_01", "fine_21"], ["fine_41"], ["fine_61", "fine_81"]]


def test_collages_of_other_super_classes(hundred):
    path = hundred / "cifar-100-binary" / "coarse_label_names.txt"
    path.write_text(path.read_text().replace("trees", "shrubs"))
    with pytest.raises(ValueError, match="Cifar Collage needs.*received.*'shrubs': 5"):
        load_cifar_collage(hundred, counts=HUNDRED.counts)
