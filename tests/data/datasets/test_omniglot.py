import zipfile

import numpy as np
import pytest
from encoded_images import encoded
from PIL import Image

from gsp_tf.data import load_omniglot
from gsp_tf.data.datasets import small_images


def drawing(rows):
    """A white page of 105 pixels with ink in the given rows."""
    page = np.full((105, 105), 255, np.uint8)
    page[rows] = 0
    return encoded(Image.fromarray(page).convert("1"), "PNG")


def write_zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{path.stem}/{name}", content)


@pytest.fixture
def folder(tmp_path):
    upper, lower = drawing(slice(0, 15)), drawing(slice(90, 105))
    first = {"Greek/character01/1_01.png": upper, "Greek/notes.txt": b"ignored"}
    both = {"Greek/character02/2_01.png": upper}
    second = {"Greek/character02/2_02.png": lower, "Latin/character01/3_01.png": lower}
    write_zip(tmp_path / "images_background_small1.zip", first | both)
    write_zip(tmp_path / "omniglot_background_small2.zip", both | second)
    write_zip(tmp_path / "images_evaluation.zip", {"Tengwar/character01/4_01.png": upper})
    return tmp_path


def test_zips_are_merged(folder):
    images = load_omniglot(folder, size=7, counts={})
    names = "Greek/character01 Greek/character02 Latin/character01 Tengwar/character01"
    assert images.class_names == tuple(names.split())
    assert images.groups == ("Greek", "Greek", "Latin", "Tengwar")
    assert images.labels.tolist() == [0, 1, 1, 2, 3]
    assert images.images.shape == (5, 7, 7, 1)


def test_ink_is_white_on_black_and_reduced_smoothly(folder):
    image = load_omniglot(folder, size=7, counts={}).image(0)[..., 0]
    assert (image[0] == 255).all() and (image[1:] == 0).all()
    image = load_omniglot(folder, size=3, counts={}).image(0)[..., 0]
    np.testing.assert_allclose(image[0], 255 * 15 / 35, atol=1)


DRAWN = "Tengwar/character01/4_01.png"
BROKEN = r"images_evaluation\.zip is broken"


@pytest.mark.parametrize(
    ("files", "damage", "message"),
    [
        ({DRAWN: drawing(slice(9))}, lambda c: c[:-30], BROKEN + ".*Download it again"),
        ({DRAWN: b"no picture"}, bytes, BROKEN),
        ({"1.png": drawing(slice(2))}, bytes, r"images_evaluation\.zip holds no drawings"),
    ],
)
def test_a_damaged_zip_or_one_of_something_else_is_named(folder, files, damage, message):
    path = folder / "images_evaluation.zip"
    write_zip(path, files)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        load_omniglot(folder, counts={})


def test_the_published_counts_are_expected(folder):
    with pytest.raises(ValueError, match="2 characters and 2 drawings, expected 136 and 2,720"):
        load_omniglot(folder)


def test_download_of_the_full_set(folder, tmp_path, monkeypatch):
    remotes = [
        remote._replace(url=(folder / remote.name).as_uri(), md5=None)
        for remote in small_images._OMNIGLOT_REMOTES
    ]
    monkeypatch.setattr(small_images, "_OMNIGLOT_REMOTES", remotes)
    drawn = {"Greek/character01/1_01.png": drawing(slice(0, 15))}
    write_zip(folder / "images_background.zip", drawn)
    images = load_omniglot(tmp_path / "new", download=True, counts={})
    assert images.class_names == ("Greek/character01", "Tengwar/character01")
