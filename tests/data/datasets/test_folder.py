import numpy as np
import pytest
from PIL import Image

from gsp_tf.data import load_folder
from gsp_tf.data.images._formats import FORMATS, IMAGE_EXTENSIONS


def save(path, colour="red"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), colour).save(path)


@pytest.fixture
def pets(tmp_path):
    for name in (
        "Hund/1.png",
        "Hund/deep er/below/2.JPG",
        "Kätzchen 猫/b c.png",
        "Kätzchen 猫/a.webp",
    ):
        save(tmp_path / name)
    return tmp_path


def test_classes_and_files_in_sorted_order(pets):
    images = load_folder(pets)
    assert images.class_names == ("Hund", "Kätzchen 猫")
    assert images.labels.tolist() == [0, 0, 1, 1]
    names = ["Hund/1.png", "Hund/deep er/below/2.JPG", "Kätzchen 猫/a.webp", "Kätzchen 猫/b c.png"]
    assert images.paths == tuple(str(pets / name) for name in names)
    assert images.channels == 3
    np.testing.assert_array_equal(images.image(3), np.full((4, 4, 3), (255, 0, 0)))
    assert load_folder(str(pets), channels=1).image(0).shape == (4, 4, 1)


def test_small_classes_are_left_out(pets):
    save(pets / "one/1.png")
    (pets / "leer").mkdir()
    with pytest.warns(UserWarning, match="") as caught:
        images = load_folder(pets)
    assert images.class_names == ("Hund", "Kätzchen 猫")
    assert "2 classes with fewer than 2 images: leer (0), one (1)" in str(caught[0].message)
    with pytest.warns(UserWarning, match=r"1 class with fewer than 1 image: leer \(0\)"):
        assert load_folder(pets, min_images_per_class=1).class_names[-1] == "one"
    with pytest.raises(ValueError, match="min_images_per_class must be an integer .*received 0"):
        load_folder(pets, min_images_per_class=0)


def test_one_summary_of_all_that_is_left_out(pets, locked_folder):
    """A messy folder as a phone, a Mac and a network drive leave it."""
    save(pets / "one/1.png")
    save(pets / "stray.png")
    save(pets / "__MACOSX/Hund/1.png")
    save(pets / "Hund/@eaDir/1.png")
    save(pets / "Hund/.trash/1.png")
    save(pets / "Hund/._1.png")
    save(pets / "Hund/locked/1.png")
    (pets / "Hund/.DS_Store").touch()
    (pets / "Hund/again").symlink_to(pets / "Kätzchen 猫")
    for name in ("IMG_1.CR2", "IMG_2.CR2", "logo.svg", "LICENSE"):
        (pets / "Hund" / name).touch()
    (pets / "Hund/empty.png").touch()
    with pytest.warns(UserWarning, match="left out") as caught:
        images = load_folder(pets, skip_unreadable=True)
    assert len(caught) == 1 and len(images) == 4
    assert str(caught[0].message).splitlines() == [
        f"left out of {pets}:",
        "  4 files of other kinds: 2 .CR2 (Hund/IMG_1.CR2), 1 without extension (Hund/LICENSE), "
        "1 .svg (Hund/logo.svg)",
        "  1 hidden image: Hund/._1.png",
        "  3 hidden or system folders: Hund/.trash, Hund/@eaDir, __MACOSX",
        "  1 link to a folder: Hund/again",
        "  1 folder that may not be read: Hund/locked (Permission denied)",
        "  1 image in no class folder: stray.png",
        "  1 of 6 files, which cannot be read as images:",
        f"    {pets}/Hund/empty.png: the file is empty (0 bytes)",
        "  1 class with fewer than 2 images: one (1)",
    ]


def test_a_linked_class(pets, tmp_path_factory):
    for name in ("1.png", "2.png"):
        save(tmp_path_factory.getbasetemp() / "elsewhere" / name)
    (pets / "linked").symlink_to(tmp_path_factory.getbasetemp() / "elsewhere")
    (pets / "circle").symlink_to(pets)
    with pytest.warns(UserWarning, match="1 link to a folder: circle\n"):
        assert load_folder(pets).labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_no_image_has_the_classes_of_a_folder_and_of_a_link_to_it(pets):
    save(pets / ".store/1.png")
    save(pets / ".store/2.png")
    (pets / "from the store").symlink_to(pets / ".store")
    (pets / "again").symlink_to("Hund")
    (pets / "part").symlink_to("Hund/deep er")
    with pytest.warns(UserWarning, match="2 links to folders: again, part\n"):
        images = load_folder(pets)
    assert images.class_names == ("Hund", "Kätzchen 猫", "from the store")
    assert images.labels.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("extension", "name"), [(".HEIC", "HEIF"), (".avif", "AVIF")])
def test_formats_that_need_another_installation(pets, monkeypatch, extension, name):
    kept = tuple(e for e in IMAGE_EXTENSIONS if e != extension.lower())
    monkeypatch.setattr("gsp_tf.data.datasets.own.IMAGE_EXTENSIONS", kept)
    monkeypatch.setattr(
        "gsp_tf.data.images._formats.FORMATS", tuple(f for f in FORMATS if f != name)
    )
    save(pets / "Hund/3.png")
    (pets / "Hund/3.png").rename(pets / f"Hund/3{extension}")
    with pytest.warns(UserWarning, match=rf"1 {extension} \(.*\)\n  .* is read .*pip install"):
        load_folder(pets)


def test_an_error_lists_all_problems(tmp_path):
    save(tmp_path / "one/1.png")
    save(tmp_path / "stray.png")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/empty.png").touch()
    with pytest.raises(ValueError, match="cannot be used") as caught:
        load_folder(tmp_path)
    for part in (
        "1 of 2 files cannot be read",
        "empty.png: the file is empty",
        "at least two classes are needed, one folder each, of 2 images or more (",
        "received none",
        "2 classes with fewer than 2 images: one (1), two (0)",
        "1 image in no class folder: stray.png",
    ):
        assert part in str(caught.value)
