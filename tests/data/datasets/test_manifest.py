import functools

import pytest
from miniatures import save_image

from gsp_tf import data

load_manifest = functools.partial(data.load_manifest, min_images_per_class=1)


@pytest.fixture
def folder(tmp_path):
    for name in ("a.png", "b.png", "my images/ç.png", "d.png", "e.png"):
        save_image(tmp_path / name)
    return tmp_path


def write(folder, *lines, encoding="utf-8"):
    path = folder / "list.csv"
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


def test_without_splits(folder):
    lines = "zebra,a.png", f"Äpfel,{folder / 'b.png'}", "zebra,my images/ç.png"
    sets = load_manifest(write(folder, "label,path", *lines))
    assert list(sets) == ["all"]
    images = sets["all"]
    assert images.class_names == ("zebra", "Äpfel")
    assert images.labels.tolist() == [0, 1, 0]
    assert images.paths == tuple(str(folder / n) for n in ("a.png", "b.png", "my images/ç.png"))
    assert images.image(2).shape == (6, 8, 3)


def test_byte_order_mark_further_columns_and_empty_values_without_one(folder):
    lines = "path,label,note,,", "a.png,x,1,,", 'b.png,"y, z",2,,,,'
    images = load_manifest(write(folder, *lines, encoding="utf-8-sig"), channels=1)["all"]
    assert images.class_names == ("x", "y, z") and images.image(0).shape == (6, 8, 1)


def test_labels_that_look_like_numbers_or_each_other_are_different_texts(folder):
    texts = ["1", "1.0", "NA", "x", "x\0"]
    images = "a.png", "b.png", "my images/ç.png", "d.png", "e.png"
    lines = [f"{image},{text}" for image, text in zip(images, texts, strict=True)]
    found = load_manifest(write(folder, "path,label", *lines))["all"]
    assert [found.class_names[label] for label in found.labels] == texts


def test_splits_have_their_own_labels(folder):
    lines = "a.png,x,train", "b.png,y,train", "d.png,u,test", "e.png,v,test"
    sets = load_manifest(write(folder, "path,label,split", *lines))
    assert list(sets) == ["train", "test"]
    assert sets["test"].class_names == ("u", "v")
    assert sets["test"].labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["file,label", "a.png,x"], r"line 1: columns \['path'\] are missing.*'file,label'"),
        (["path,label"], "lists no images"),
        (["path,label,split", "a.png,x,dev"], "line 2: unknown split 'dev'; accepted are train"),
        (["path,label", "a.png,x", "b.png, "], "line 3: the label is empty"),
        (["path,label", "a.png,x", "none.png,y"], r"line 3: there is no file .*none\.png"),
        (["path,label", "a.png,x", "./a.png,y"], r"line 3: .*a\.png is already on line 2"),
        (["path,label,split", "a.png,x,train", "b.png,x,test"], "line 3: class 'x' is in split"),
        (["path,label", "a.png,x, red"], r"line 2: the values \[' red'\] have no column"),
        (["path,label,label", "a.png,x,y"], r"line 1: columns \['label'\] occur more than once"),
        (["path,label", "a.png,x", "b.png,x"], r"two classes .* split 'all'.*received \['x'\]"),
    ],
)
def test_errors_name_the_line(folder, lines, message):
    with pytest.raises(ValueError, match=message):
        load_manifest(write(folder, *lines))


def test_problems_of_lines_files_and_classes_are_listed_at_once(folder):
    (folder / "empty.png").touch()
    lines = "gone.png,x", "lost.png,y", "empty.png,x", "a.png,y", "b.png,y"
    path = write(folder, "path,label", *lines)
    with pytest.raises(ValueError, match="cannot be used") as caught:
        data.load_manifest(path)
    for part in (
        "line 2: there is no file",
        "line 3: there is no file",
        "1 of 3 files cannot be read",
        "split 'all', of 2 images or more; received ['y']",
        "1 class with fewer than 2 images: x (1)",
    ):
        assert part in str(caught.value)


def test_small_classes_are_left_out(folder):
    lines = "a.png,x", "b.png,y", "my images/ç.png,y", "d.png,z", "e.png,z"
    path = write(folder, "path,label", *lines)
    with pytest.warns(UserWarning, match=r"1 class with fewer than 2 images: x \(1\)"):
        images = data.load_manifest(path)["all"]
    assert images.class_names == ("y", "z") and images.labels.tolist() == [0, 0, 1, 1]


def test_queries_and_gallery_keep_classes_of_one_image(folder):
    lines = "a.png,x,query", "b.png,x,gallery", "d.png,y,query", "e.png,z,gallery"
    sets = data.load_manifest(write(folder, "path,label,split", *lines))
    assert sets["query"].class_names == sets["gallery"].class_names == ("x", "y", "z")


def test_other_encodings_are_refused(folder):
    with pytest.raises(ValueError, match="not a CSV file in UTF-8"):
        load_manifest(write(folder, "path,label", "a.png,Ä", encoding="latin-1"))
