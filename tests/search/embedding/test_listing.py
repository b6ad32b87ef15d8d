import pytest

from gsp_tf.search.embed import _list_digest, list_images


@pytest.fixture
def folder(tmp_path):
    for name in ("b/x/2.PNG", "b/1.jpg", "a/3.png", "0.png", "a/notes.txt", ".hidden/4.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).touch()
    return tmp_path / "in"


def test_the_first_folder_below_is_the_label(folder):
    with pytest.warns(UserWarning, match=f"left out of {folder}"):
        listed = list_images(str(folder))  # not read letter by letter
    expected = [("0.png", None), ("a/3.png", "a"), ("b/1.jpg", "b"), ("b/x/2.PNG", "b")]
    assert listed == [(str(folder / name), label) for name, label in expected]


def test_an_image_named_twice_is_listed_once_with_the_label_that_is_known(folder, monkeypatch):
    monkeypatch.chdir(folder)
    first, *_ = listed = list_images(["a/3.png", ".", folder / "a" / ".." / "a" / "3.png"])
    assert first == (str(folder / "a/3.png"), "a") and len(listed) == 4


def test_a_manifest(folder, tmp_path):
    manifest = tmp_path / "list.csv"
    manifest.write_text("path,label\nin/0.png,zero\nin/gone.png,\n", encoding="utf-8")
    expected = [(str(folder / "0.png"), "zero"), (str(folder / "gone.png"), None)]
    assert list_images([manifest]) == expected
    manifest.write_text("path,label\nin/a/3.png,other\n")
    with pytest.raises(ValueError, match="3.png has two labels: 'a' and 'other'"):
        list_images([folder, manifest])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("path,label\n", "lists no images"),
        ("path,label\n,cat\n", "line 2: the path is empty"),
        ('path,label\n1.png,cat\n2.png,"dog\n3.png,cow\n', "list.csv, line 3: unexpected end"),
    ],
)
def test_manifests_that_cannot_be_used(tmp_path, content, message):
    (tmp_path / "list.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        list_images([tmp_path / "list.csv"])


def test_the_fingerprint_is_of_paths_labels_and_their_order():
    lists = [
        [("a", None), ("b", None)],
        [("b", None), ("a", None)],
        [("a", "b"), ("b", None)],
        [("a\udcff", None), ("b", None)],
        [("a", None)],
    ]
    assert len({_list_digest(images) for images in lists}) == len(lists)


def test_what_is_not_there_and_what_is_empty(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.png does not exist"):
        list_images([tmp_path / "nothing.png"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty cannot be used:\n- there are no images in it"):
        list_images([tmp_path / "empty"])
