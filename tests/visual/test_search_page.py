import re

import numpy as np
import pytest
from PIL import Image

from gsp_tf.data import read_image
from gsp_tf.visual import search_page, write_search_page
from gsp_tf.visual.search_page import image_tile


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.full((300, 200, 3), 90, np.uint8)).save(path)
    return path


def test_texts_are_escaped_and_nothing_is_requested(picture, tmp_path):
    found = [(1, 0.125, "<script>alert(1)</script>", str(picture)), (2, 3.0, None, "/x/\"'<i>.png")]
    page = write_search_page(tmp_path / "p.html", [(picture, found)], "<u>", "<s>").read_text(
        "utf-8"
    )
    assert "<script" not in page and "<i>" not in page and "<u>" not in page and "<s>" not in page
    assert "1 · &lt;script&gt;alert(1)&lt;/script&gt;" in page and "0.1250" in page
    assert "/x/&#34;&#39;&lt;i&gt;.png" in page
    links = re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', page)
    files = [link for link in links if not link.startswith("data:")]
    assert len(links) == 5 and files == [picture.as_uri()] * 2
    assert "<b>2</b>" in page and "None" not in page


def test_files_that_cannot_be_shown_say_why(picture, tmp_path):
    (tmp_path / "empty.png").touch()
    found = [(1, 0.0, "x", str(tmp_path / "empty.png")), (2, 1.0, "x", str(tmp_path / "gone.png"))]
    page = write_search_page(tmp_path / "p.html", [(picture, found)], "", "").read_text("utf-8")
    assert "the file is empty" in page and "there is no such file" in page
    assert page.count("<img") == 1


def test_small_pictures_are_shown_as_they_are(picture, tmp_path):
    Image.new("L", (20, 20)).save(tmp_path / "small.png")
    found = [(1, 0.0, "x", str(tmp_path / "small.png"))]
    page = write_search_page(tmp_path / "p.html", [(picture, found)], "", "").read_text("utf-8")
    assert page.count('<img class="small"') == 1 and page.count("<img") == 2


def test_pictures_are_made_one_by_one_up_to_a_bound(picture, tmp_path, monkeypatch):
    made = []

    def tile(path):
        assert not (tmp_path / "p.html").exists()
        made.append(path)
        return image_tile(path)

    monkeypatch.setattr(search_page, "image_tile", tile)
    monkeypatch.setattr(search_page, "PAGE_NEIGHBOURS", 3)
    found = [(rank, 0.5, "x", str(picture)) for rank in range(1, 6)]
    searches = [(picture, found), (picture, found[:2])]
    page = write_search_page(tmp_path / "p.html", searches, "", "").read_text("utf-8")
    assert len(made) == page.count("<img") == (1 + 3) + (1 + 2)
    assert page.count("The nearest 3 of 5 are shown.") == 1
    assert "Neighbours of 2 images" in page


def test_photographs_are_decoded_at_a_fraction(tmp_path):
    path = tmp_path / "large.jpg"
    Image.new("RGB", (4000, 2000), "teal").save(path)
    assert read_image(path, min_side=480).shape == (500, 1000, 3)
    tile = image_tile(path)
    assert tile.uri.startswith("data:image/jpeg;base64,") and not tile.small
    assert tile.link == path.as_uri()
