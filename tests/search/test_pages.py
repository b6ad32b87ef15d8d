"""The page of what a search found."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from gsp_tf.search import Neighbour, write_neighbours


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.full((300, 200, 3), 90, np.uint8)).save(path)
    return path


class Searched:
    """Instead of an `Index`."""

    distance_name = "<s>"
    metadata = SimpleNamespace(kind="exact", model=SimpleNamespace(recipe="<u>"))

    def __len__(self):
        return 1234


@pytest.fixture
def write(tmp_path):
    """Function that gives the page of a search."""

    def text(query, found):
        found = [Neighbour(*one, id=0) for one in found]
        page = write_neighbours(tmp_path / "p.html", query, found, Searched())
        return page.read_text("utf-8")

    return text


def test_texts_are_escaped_and_nothing_is_requested(picture, write):
    found = [(1, 0.125, "<script>alert(1)</script>", str(picture)), (2, 3.0, None, "/x/\"'<i>.png")]
    page = write(picture, found)
    assert "The 2 nearest of 1,234 images" in page and "<title>Neighbours of a.png<" in page
    assert "<script" not in page and "<i>" not in page and "<u>" not in page and "<s>" not in page
    assert "1 · &lt;script&gt;alert(1)&lt;/script&gt;" in page and "0.1250" in page
    assert "/x/&#34;&#39;&lt;i&gt;.png" in page
    links = re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', page)
    files = [link for link in links if not link.startswith("data:")]
    assert len(links) == 5 and files == [picture.as_uri()] * 2
    assert "<b>2</b>" in page and "None" not in page


def test_an_index_of_vectors_from_elsewhere_names_no_run(picture, write, monkeypatch):
    monkeypatch.setattr(Searched, "metadata", SimpleNamespace(kind="exact", model=None))
    assert "The 1 nearest of 1,234 images." in write(picture, [(1, 0.0, "x", str(picture))])


def test_pictures_are_small_as_they_are_or_say_why_they_are_missing(picture, write, tmp_path):
    (tmp_path / "empty.png").touch()
    Image.new("L", (20, 20)).save(tmp_path / "small.png")
    names = ("empty.png", "gone.png", "small.png")
    page = write(picture, [(1, 0.0, "x", str(tmp_path / name)) for name in names])
    assert "the file is empty" in page and "there is no such file" in page
    assert page.count('<img class="small"') == 1 and page.count("<img") == 2
