import io
import tarfile

import numpy as np
import pytest
from miniatures import SUPER_NAMES, cifar_record, write_cifar100

from gsp_tf.data import cifar10, load_cifar10, load_cifar100, load_cifar_collage
from gsp_tf.experiment import load_splits
from gsp_tf.recipe import CollageRecipe, DataRecipe, ProtocolRecipe, Recipe

TEN = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
BACKGROUND = {SUPER_NAMES[i] for i in (2, 9, 10, 17)}
COUNTS_10, COUNTS_100 = {"all": (10, 60)}, {"all": (100, 300)}


@pytest.fixture
def ten(tmp_path):
    root = tmp_path / "cifar-10-batches-bin"
    root.mkdir()
    (root / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n")
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        content = b"".join(cifar_record(label, colour=(i, label, 9)) for label in range(10))
        (root / f"{name}.bin").write_bytes(content)
    return tmp_path


@pytest.fixture
def hundred(tmp_path):
    write_cifar100(tmp_path)
    return tmp_path


def test_cifar10(ten):
    images = load_cifar10(ten, counts=COUNTS_10)
    assert images.class_names == tuple(TEN)
    np.testing.assert_array_equal(images.labels, np.tile(np.arange(10), 6))
    assert images.images.shape == (60, 32, 32, 3)
    assert images.image(57)[0, :2].tolist() == [[255, 0, 0], [5, 7, 9]]


def test_cifar100_has_its_super_classes(hundred):
    images = load_cifar100(hundred, counts=COUNTS_100)
    assert images.class_names[99] == "fine_99"
    assert images.groups == tuple(SUPER_NAMES * 5)
    np.testing.assert_array_equal(images.labels, np.tile(np.arange(100), 3))
    assert images.image(142)[5, 5].tolist() == [42, 2, 1]


@pytest.mark.parametrize(
    ("load", "folder", "message"),
    [
        (load_cifar10, "ten", "all: 10 classes and 60 images, expected 10 classes and 60,000"),
        (load_cifar100, "hundred", "all: 100 classes and 300 images, expected 100 classes and 60,"),
    ],
)
def test_the_published_counts_are_expected(load, folder, message, request):
    with pytest.raises(ValueError, match=message):
        load(request.getfixturevalue(folder))


@pytest.mark.parametrize("load", [load_cifar10, load_cifar100, load_cifar_collage])
def test_nothing_there(load, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"CIFAR-10.*binary\.tar\.gz.*cs\.toronto\.edu"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["batches.meta.txt", "data_batch_3.bin"])
def test_a_missing_file(ten, name):
    (ten / "cifar-10-batches-bin" / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} does not exist"):
        load_cifar10(ten, counts=COUNTS_10)


def test_a_truncated_file(ten):
    path = ten / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        ValueError, match=r"test_batch\.bin is broken: 30729 bytes.*records of 3073"
    ):
        load_cifar10(ten, counts=COUNTS_10)


def test_a_label_out_of_range(ten):
    (ten / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(cifar_record(11))
    with pytest.raises(ValueError, match=r"labels up to \[11\] for \[10\] names"):
        load_cifar10(ten, counts=COUNTS_10)


def test_a_class_of_two_super_classes(hundred):
    (hundred / "cifar-100-binary" / "test.bin").write_bytes(cifar_record(1, 0))
    with pytest.raises(ValueError, match="100 classes occur in 101 pairs"):
        load_cifar100(hundred, counts=COUNTS_100)


@pytest.mark.parametrize("name", ["cifar100", "glyphs"])
def test_a_label_by_super_class_is_of_collages(name):
    with pytest.raises(ValueError, match="label must be class without collages .*super_class"):
        DataRecipe(name, "nowhere", collage=CollageRecipe(label="super_class"))


def test_download(ten, tmp_path, monkeypatch):
    with tarfile.open(tmp_path / "served.tar.gz", "w:gz") as archive:
        archive.add(ten / "cifar-10-batches-bin", "cifar-10-batches-bin")
        archive.addfile(tarfile.TarInfo("readme.html"), io.BytesIO())
    (remote,) = cifar10._SOURCE.remotes
    remote = remote._replace(url=(tmp_path / "served.tar.gz").as_uri(), md5=None)
    monkeypatch.setattr(cifar10, "_SOURCE", cifar10._SOURCE._replace(remotes=(remote,)))
    assert len(load_cifar10(tmp_path / "new", download=True, counts=COUNTS_10)) == 60


def test_collage_splits(hundred):
    sets = load_cifar_collage(hundred, counts=COUNTS_100)
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


def test_collages_labelled_by_super_class(hundred):
    """The 16 labels of the papers, in every part; the tiles are those of the classes."""
    sets = load_cifar_collage(hundred, label="super_class", counts=COUNTS_100)
    for images, by_class in zip(
        sets.values(), load_cifar_collage(hundred, counts=COUNTS_100).values(), strict=True
    ):
        assert images.class_names == images.groups == tuple(sorted(set(SUPER_NAMES) - BACKGROUND))
        np.testing.assert_array_equal(images.foreground.images, by_class.foreground.images)
        for label, fine in zip(images.labels, by_class.labels, strict=True):
            assert images.class_names[label] == by_class.groups[fine]


def test_a_collage_has_one_foreground_tile(hundred):
    test = load_cifar_collage(hundred, counts=COUNTS_100)["test"]
    image = test.image(7)
    assert image.shape == (64, 64, 3)
    groups = [SUPER_NAMES[image[row, column, 1]] for row in (9, 41) for column in (9, 41)]
    assert sum(group in BACKGROUND for group in groups) == 3
    assert test.groups[test.labels[7]] in groups


def test_the_foreground_tile_alone(hundred):
    test = load_cifar_collage(hundred, grid=1, counts=COUNTS_100)["test"]
    np.testing.assert_array_equal(test.image(7), test.foreground.images[7])


def test_collages_of_other_super_classes(hundred):
    path = hundred / "cifar-100-binary" / "coarse_label_names.txt"
    path.write_text(path.read_text().replace("trees", "shrubs"))
    with pytest.raises(ValueError, match="Cifar Collage needs.*received.*'shrubs': 5"):
        load_cifar_collage(hundred, counts=COUNTS_100)


def recipe(name, folder, protocol="fractions", **arguments):
    return Recipe(
        data=DataRecipe(name, str(folder), image_size=64, **arguments),
        protocol=ProtocolRecipe(protocol),
    )


def test_collages_in_a_recipe(hundred, published):
    published(load_cifar_collage, COUNTS_100)
    splits = load_splits(recipe("cifar_collage", hundred))
    assert [len(part.class_names) for part in splits[:3]] == [32, 16, 32]
    by_group = recipe("cifar_collage", hundred, collage=CollageRecipe(label="super_class"))
    assert [len(part.class_names) for part in load_splits(by_group)[:3]] == [16, 16, 16]
    with pytest.raises(ValueError, match="cifar_collage brings its own splits: .*name=fractions"):
        load_splits(recipe("cifar_collage", hundred, "ablation"))
    tiles = load_splits(recipe("cifar_collage", hundred, collage=CollageRecipe(grid=1)))
    assert [len(part.class_names) for part in tiles[:3]] == [32, 16, 32]
    with pytest.raises(ValueError, match="grid must be 1 or 2, received 3"):
        load_splits(recipe("cifar_collage", hundred, collage=CollageRecipe(grid=3)))


@pytest.mark.parametrize("protocol", ["fractions", "ablation", "tuning", "conventional"])
def test_cifar100_in_a_recipe(hundred, published, protocol):
    published(load_cifar100, COUNTS_100)
    splits = load_splits(recipe("cifar100", hundred, protocol))
    assert len(splits.test.class_names) == {"fractions": 40, "tuning": 10}.get(protocol, 50)
    assert not set(splits.train.class_names) & set(splits.test.class_names)


def test_cifar10_in_a_recipe(ten, published):
    published(load_cifar10, COUNTS_10)
    assert [len(p.class_names) for p in load_splits(recipe("cifar10", ten))[:3]] == [4, 2, 4]
    splits = load_splits(recipe("cifar10", ten, "conventional"))
    assert splits.test.class_names == tuple(TEN[5:])
