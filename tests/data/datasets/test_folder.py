import pytest
from miniatures import save_image

from gsp_tf.data import load_folder

NAMES = "Hund/1.png", "Hund/deep er/below/2.JPG", "Kätzchen 猫/a.webp", "Kätzchen 猫/b c.png"


@pytest.fixture
def pets(tmp_path):
    for name in reversed(NAMES):
        save_image(tmp_path / name)
    return tmp_path


def test_classes_and_files_in_sorted_order(pets):
    images = load_folder(pets)
    assert images.class_names == ("Hund", "Kätzchen 猫")
    assert images.labels.tolist() == [0, 0, 1, 1]
    assert images.paths == tuple(str(pets / name) for name in NAMES)
    assert images.channels == 3
    assert images.image(3).shape == (6, 8, 3)
    assert load_folder(str(pets), channels=1).image(0).shape == (6, 8, 1)


def test_small_classes_are_left_out(pets):
    save_image(pets / "one/1.png")
    (pets / "leer").mkdir()
    with pytest.warns(UserWarning, match=r"1 class with fewer than 1 image: leer \(0\)"):
        assert load_folder(pets, min_images_per_class=1).class_names[-1] == "one"
    with pytest.raises(ValueError, match="min_images_per_class must be an integer .*received 0"):
        load_folder(pets, min_images_per_class=0)


def test_one_summary_of_all_that_is_left_out(pets, locked_folder):
    """A messy folder as a phone, a Mac and a network drive leave it."""
    save_image(pets / "one/1.png")
    save_image(pets / "stray.png")
    save_image(pets / "__MACOSX/Hund/1.png")
    save_image(pets / "Hund/@eaDir/1.png")
    save_image(pets / "Hund/.trash/1.png")
    save_image(pets / "Hund/._1.png")
    save_image(pets / "Hund/locked/1.png")
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


def test_no_image_has_the_classes_of_a_folder_and_of_a_link_to_it(pets, tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    save_image(store / "1.png")
    save_image(store / "2.png")
    (pets / "from the store").symlink_to(store)
    (pets / "again").symlink_to("Hund")
    (pets / "circle").symlink_to(pets)
    (pets / "part").symlink_to("Hund/deep er")
    with pytest.warns(UserWarning, match="3 links to folders: again, circle, part\n"):
        images = load_folder(pets)
    assert images.class_names == ("Hund", "Kätzchen 猫", "from the store")
    assert images.labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_format_that_needs_another_installation(pets, monkeypatch):
    monkeypatch.setattr("gsp_tf.data.datasets.own.IMAGE_EXTENSIONS", (".jpg", ".png", ".webp"))
    monkeypatch.setattr("gsp_tf.data.images._formats.FORMATS", ("JPEG", "PNG", "WEBP"))
    (pets / "Hund/3.HEIC").touch()
    with pytest.warns(UserWarning, match=r"1 .HEIC \(.*\)\n  .* is read .*pip install"):
        load_folder(pets)


def test_an_error_lists_all_problems(tmp_path):
    save_image(tmp_path / "one/1.png")
    save_image(tmp_path / "stray.png")
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
