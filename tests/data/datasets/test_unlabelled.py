"""Images without a class: of a folder, or of the rows of a manifest without a label."""

from pathlib import Path

import pytest
from miniatures import save_image

from gsp_tf.data import load_folder, load_manifest, load_unlabelled


@pytest.fixture
def photos(tmp_path):
    names = [f"{animal}/{number}.png" for animal in ("cat", "dog") for number in (1, 2)]
    for name in (*names, "new/deep/3.png", "new/4.png", "5.png"):
        save_image(tmp_path / name)
    return tmp_path


def names(images, folder):
    return [Path(path).relative_to(folder).as_posix() for path in images.paths]


def test_all_images_of_a_folder_at_any_depth(photos):
    images = load_unlabelled(photos / "new")
    assert images.class_names == ("4.png", "deep/3.png") and images.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("unlabelled", "found", "classes"),
    [
        ("new", ["new/4.png", "new/deep/3.png"], ("cat", "dog")),
        (".", ["5.png"], ("cat", "dog", "new")),
        ("new/deep", ["new/deep/3.png"], ("cat", "dog")),
    ],
)
def test_a_class_folder_keeps_its_images(photos, unlabelled, found, classes, recwarn):
    images = load_unlabelled(photos / unlabelled, labelled=photos)
    assert names(images, photos) == found
    labelled = load_folder(photos, unlabelled=photos / unlabelled)
    assert labelled.class_names == classes
    assert not {*labelled.paths} & {*images.paths}
    notes = " ".join(str(note.message) for note in recwarn)
    assert ("image in no class folder: 5.png" in notes) == (unlabelled != ".")
    assert ("fewer than 2 images: new (1)" in notes) == (unlabelled == "new/deep")


def test_a_linked_class_folder_keeps_its_images(photos, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (photos / "cat").rename(elsewhere / "cat")
    (photos / "cat").symlink_to(elsewhere / "cat")
    assert names(load_unlabelled(photos, labelled=photos), photos) == ["5.png"]
    with pytest.raises(ValueError, match="no image without a class"):
        load_unlabelled(elsewhere, labelled=photos)


def test_a_list_in_the_folder_leaves_the_class_folders_their_images(photos):
    (photos / "list.csv").write_text("path,label\ncat/1.png,\n5.png,")
    images = load_unlabelled(photos / "list.csv", labelled=photos)
    assert names(images, photos) == ["5.png"]


def test_rows_without_a_label(photos):
    lines = ["cat/1.png,cat,train", "cat/2.png,cat,train", "dog/1.png,dog,train"]
    lines += ["dog/2.png,dog,train", "5.png,,train", "new/4.png,,train"]
    path = photos / "list.csv"
    path.write_text("\n".join(["path,label,split", *lines]))
    assert names(load_unlabelled(path), photos) == ["5.png", "new/4.png"]
    assert len(load_manifest(path, unlabelled=path)["train"]) == 4
    others = load_unlabelled(photos, labelled=path)
    assert names(others, photos) == ["5.png", "new/4.png", "new/deep/3.png"]
    with pytest.raises(ValueError, match="line 6: the label is empty"):
        load_manifest(path)
    path.write_text(path.read_text().replace("5.png,,train", "5.png,,test"))
    with pytest.raises(ValueError, match="line 6: an image without a label can only train.*'test'"):
        load_manifest(path, unlabelled=path)


def test_errors(photos):
    with pytest.raises(FileNotFoundError, match="expected a folder of images or a CSV file"):
        load_unlabelled(photos / "none")
    (photos / "empty").mkdir()
    with pytest.raises(ValueError, match="it has no image without a class"):
        load_unlabelled(photos / "empty")
    (photos / "new/6.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="1 of 3 files, which cannot be read"):
        assert len(load_unlabelled(photos / "new", skip_unreadable=True)) == 2
