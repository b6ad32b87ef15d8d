import time
import zipfile

import numpy as np
import pytest
from miniatures import SOP_HEADER, write_sop

from gsp_tf.data import load_sop, sop

COUNTS = {"train": (10, 20), "test": (3, 9)}


@pytest.fixture
def products(tmp_path):
    write_sop(tmp_path)
    return tmp_path


def edit(products, split, old, new):
    path = products / "Stanford_Online_Products" / f"Ebay_{split}.txt"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_halves_labels_groups_and_pixels(products):
    sets = load_sop(products, counts=COUNTS)
    assert list(sets) == ["train", "test"]
    assert sets["test"].class_names == ("toaster/11", "bicycle/12", "toaster/13")
    assert sets["test"].groups == ("toaster", "bicycle", "toaster")
    np.testing.assert_array_equal(sets["test"].labels, np.repeat([0, 1, 2], 3))
    np.testing.assert_array_equal(sets["train"].labels, np.repeat(np.arange(10), 2))
    assert abs(int(sets["test"].image(2).mean()) - 23 * 5) <= 2


def test_protocols(products, published, check_protocols):
    published(load_sop, COUNTS)
    check_protocols("sop", products)


def test_the_published_counts_are_expected(products):
    message = "train: 10 classes and 20 images, expected 11,318 classes and 59,551 images"
    with pytest.raises(ValueError, match=message):
        load_sop(products)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Online_Products\.zip.*cvgl\.stanford\.edu"):
        load_sop(tmp_path)


def test_a_missing_list(products):
    (products / "Stanford_Online_Products/Ebay_test.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"Ebay_test\.txt does not exist"):
        load_sop(products, counts=COUNTS)


@pytest.mark.parametrize(
    ("split", "old", "new", "message"),
    [
        (
            "train",
            SOP_HEADER,
            "",
            r"Ebay_train\.txt, line 1: expected 'image_id class_id super_class",
        ),
        ("train", "3 2 1 b", "3 b", r"Ebay_train\.txt, line 4: expected .*; received '3 b"),
        ("test", "21 11 12 t", "x 11 12 t", r"Ebay_test\.txt, line 2: expected"),
        ("test", "21 11 12 t", "21 14 12 t", "test: 4 classes and 9 images, expected 3"),
    ],
)
def test_broken_lists(products, split, old, new, message):
    edit(products, split, old, new)
    with pytest.raises(ValueError, match=message):
        load_sop(products, counts=COUNTS)


def test_an_empty_list(products):
    (products / "Stanford_Online_Products/Ebay_train.txt").write_text("")
    with pytest.raises(ValueError, match="received 'the end of the file'"):
        load_sop(products, counts=COUNTS)


def test_a_class_in_both_halves(products):
    edit(products, "test", "24 12 1 bicycle", "24 2 1 bicycle")
    counts = {"train": (10, 20), "test": (4, 9)}
    with pytest.raises(ValueError, match="same classes:\n  bicycle/2\n"):
        load_sop(products, counts=counts)


def test_missing_images_are_listed(products):
    (products / "Stanford_Online_Products/toaster_final/111085122811_1.JPG").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of the 29 images.*\n.*111085122811_1\.JPG"):
        load_sop(products, counts=COUNTS)


def test_download(products, tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "served.zip", "w") as archive:
        for path in products.rglob("Stanford_Online_Products/**/*.*"):
            archive.write(path, path.relative_to(products))
        archive.writestr("__MACOSX/notes.txt", "left out")
    (remote,) = sop._SOURCE.remotes
    remote = remote._replace(url=(tmp_path / "served.zip").as_uri(), md5=None)
    monkeypatch.setattr(sop, "_SOURCE", sop._SOURCE._replace(remotes=(remote,)))
    assert len(load_sop(tmp_path / "new", download=True, counts=COUNTS)["test"]) == 9


def test_many_images_take_seconds(tmp_path):
    """The full number of lines, of images that are not decoded."""
    root = tmp_path / "Stanford_Online_Products"
    (root / "mug_final").mkdir(parents=True)
    (root / "mug_final/1.JPG").touch()
    for split, start, (classes, images) in (
        ("train", 1, (11_318, 59_551)),
        ("test", 11_319, (11_316, 60_502)),
    ):
        rows = (f"{i + 1} {start + i % classes} 8 mug_final/1.JPG" for i in range(images))
        (root / f"Ebay_{split}.txt").write_text("\n".join([SOP_HEADER, *rows]))
    started = time.process_time()
    sets = load_sop(tmp_path)
    assert time.process_time() - started < 10
    assert [len(images) for images in sets.values()] == [59_551, 60_502]
