import numpy as np
import pytest
from PIL import Image

from gsp_tf.data import load_folder


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
    save(pets / ".hidden/1.png")
    save(pets / "Hund/.trash/1.png")
    save(pets / "Hund/.3.png")
    (pets / "Hund/notes.txt").write_text("ignored")
    (pets / "README.md").write_text("ignored")
    images = load_folder(pets)
    assert images.class_names == ("Hund", "Kätzchen 猫")
    assert images.labels.tolist() == [0, 0, 1, 1]
    names = ["Hund/1.png", "Hund/deep er/below/2.JPG", "Kätzchen 猫/a.webp", "Kätzchen 猫/b c.png"]
    assert images.paths == tuple(str(pets / name) for name in names)
    assert images.channels == 3
    np.testing.assert_array_equal(images.image(3), np.full((4, 4, 3), (255, 0, 0)))
    assert load_folder(str(pets), channels=1).image(0).shape == (4, 4, 1)


def test_a_class_with_one_image_loads(pets):
    save(pets / "one/1.png")
    assert load_folder(pets).class_names[-1] == "one"


def test_images_outside_classes_are_reported(pets):
    save(pets / "stray.png")
    with pytest.warns(UserWarning, match="1 images lie in"):
        assert len(load_folder(pets)) == 4


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        load_folder(tmp_path / "nowhere")


def test_a_file_instead_of_a_folder(pets):
    with pytest.raises(NotADirectoryError, match=r"1\.png is not a folder"):
        load_folder(pets / "Hund/1.png")


def test_empty_folder(tmp_path):
    with pytest.raises(ValueError, match="at least two classes.* holds 0"):
        load_folder(tmp_path)


def test_one_class(tmp_path):
    save(tmp_path / "only/1.png")
    with pytest.raises(ValueError, match=r"at least two classes.* holds 1: \['only'\]"):
        load_folder(tmp_path)


def test_no_images(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match="no images in the class folders"):
        load_folder(tmp_path)


def test_empty_classes_are_named(pets):
    (pets / "leer").mkdir()
    with pytest.raises(ValueError, match="without a readable image.*'leer'"):
        load_folder(pets)


def test_unreadable_files_are_listed(pets):
    (pets / "Hund/empty.png").touch()
    (pets / "Hund/text.png").write_text("no")
    with pytest.raises(ValueError, match="2 of 6 files") as caught:
        load_folder(pets)
    assert "empty.png: the file is empty" in str(caught.value)
    assert "text.png: not an image" in str(caught.value)


def test_unreadable_files_are_skipped_and_counted(pets):
    (pets / "Hund/empty.png").touch()
    with pytest.warns(UserWarning, match=r"1 of 5 files(.|\n)*empty\.png"):
        images = load_folder(pets, skip_unreadable=True)
    assert images.labels.tolist() == [0, 0, 1, 1]


def test_a_class_without_readable_files_is_named(pets):
    (pets / "leer").mkdir()
    (pets / "leer/empty.png").touch()
    with (
        pytest.warns(UserWarning, match="1 of 5"),
        pytest.raises(ValueError, match="without a readable image.*'leer'"),
    ):
        load_folder(pets, skip_unreadable=True)
