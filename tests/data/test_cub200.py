import tarfile

import pytest
from miniatures import write_cub200

from gsp_tf.data import UnreadableImageError, cub200, load_cub200

COUNTS = {"train": (10, 20), "test": (3, 6)}


@pytest.fixture
def birds(tmp_path):
    """Thirteen species with two images each."""
    write_cub200(tmp_path)
    return tmp_path


def edit(birds, name, old, new):
    path = birds / "CUB_200_2011" / f"{name}.txt"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_halves_labels_and_pixels(birds):
    sets = load_cub200(birds, counts=COUNTS)
    assert list(sets) == ["train", "test"]
    assert sets["train"].class_names[::9] == ("001.Bird_1", "010.Bird_10")
    assert sets["test"].class_names == ("011.Bird_11", "012.Bird_12", "013.Bird_13")
    assert sets["test"].labels.tolist() == [0, 0, 1, 1, 2, 2]
    image = sets["test"].image(1)
    assert image.shape == (6, 8, 3) and abs(int(image.mean()) - 21 * 5) <= 2
    assert load_cub200(birds, channels=1, counts=COUNTS)["test"].image(1).shape == (6, 8, 1)


def test_classes_are_in_the_order_of_their_numbers(birds):
    path = birds / "CUB_200_2011" / "classes.txt"
    path.write_text("\n".join(reversed(path.read_text().splitlines())))
    assert load_cub200(birds, counts=COUNTS)["train"].class_names[0] == "001.Bird_1"


def test_protocols(birds, published, check_protocols):
    published(load_cub200, COUNTS)
    check_protocols("cub200", birds)


def test_the_published_counts_are_expected(birds):
    with pytest.raises(
        ValueError, match="test: 0 classes and 0 images, expected 100 classes and 5,924 images"
    ):
        load_cub200(birds)


def test_nothing_there(tmp_path):
    with pytest.raises(
        FileNotFoundError,
        match=r"CUB_200_2011 does not exist.*CUB_200_2011\.tgz.*"
        r"vision\.caltech\.edu.*--data\.download true",
    ):
        load_cub200(tmp_path)


def test_a_missing_list(birds):
    (birds / "CUB_200_2011" / "image_class_labels.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"image_class_labels\.txt does not exist"):
        load_cub200(birds, counts=COUNTS)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("images", "2 001.", "two 001.", r"images\.txt, line 2: expected 'image_id image_name'"),
        ("image_class_labels", "4 2", "4", r"labels\.txt, line 4: .*; received '4'"),
        ("image_class_labels", "\n4 2\n", "\n", "train: 10 classes and 19 images, expected 10"),
        ("image_class_labels", "26 13", "26 14", "test: 3 classes and 5 images, expected 3"),
        ("classes", "13 013.Bird_13", "", "test: 2 classes and 4 images, expected 3"),
    ],
)
def test_broken_lists(birds, name, old, new, message):
    edit(birds, name, old, new)
    with pytest.raises(ValueError, match=message):
        load_cub200(birds, counts=COUNTS)


def test_a_list_that_is_no_text(birds):
    (birds / "CUB_200_2011" / "images.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"images\.txt is not a text file"):
        load_cub200(birds, counts=COUNTS)


def test_missing_images_are_listed(birds):
    (birds / "CUB_200_2011/images/002.Bird_2/Bird_2_0001_1.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of the 26 images.*\n.*Bird_2_0001_1\.jpg"):
        load_cub200(birds, counts=COUNTS)


def test_broken_images_are_an_error_when_used_or_left_out(birds, broken_image):
    broken_image(birds / "CUB_200_2011/images/011.Bird_11/Bird_11_0002_2.jpg")
    images = load_cub200(birds, counts=COUNTS)["test"]
    with pytest.raises(UnreadableImageError, match=r"Bird_11_0002_2\.jpg: not an image"):
        images._read(1)
    with pytest.warns(UserWarning, match="1 of 26 files"):
        images = load_cub200(birds, skip_unreadable=True, counts=COUNTS)["test"]
    assert images.labels.tolist() == [0, 1, 1, 2, 2]
    assert images.class_names[0] == "011.Bird_11"


def test_download(birds, tmp_path, monkeypatch):
    with tarfile.open(tmp_path / "served.tgz", "w:gz") as archive:
        archive.add(birds / "CUB_200_2011", "CUB_200_2011")
        archive.add(__file__, "attributes.txt")
    (remote,) = cub200._SOURCE.remotes
    remote = remote._replace(url=(tmp_path / "served.tgz").as_uri(), md5=None)
    monkeypatch.setattr(cub200, "_SOURCE", cub200._SOURCE._replace(remotes=(remote,)))
    assert len(load_cub200(tmp_path / "new", download=True, counts=COUNTS)["train"]) == 20
    left = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert left == ["CUB_200_2011", "CUB_200_2011.tgz"]
