import re

import numpy as np
import pytest
from PIL import Image

from gsp_tf.visual import write_search_page


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.full((300, 200, 3), 90, np.uint8)).save(path)
    return path


def test_texts_are_escaped_and_nothing_is_requested(picture, tmp_path):
    found = [(1, 0.125, "<script>alert(1)</script>", str(picture)), (2, 3.0, None, "/x/\"'<i>.png")]
    page = write_search_page(tmp_path / "p.html", picture, found, "<u>", "<s>").read_text("utf-8")
    assert "<script" not in page and "<i>" not in page and "<u>" not in page and "<s>" not in page
    assert "1 · &lt;script&gt;alert(1)&lt;/script&gt;" in page and "0.1250" in page
    assert "/x/&#34;&#39;&lt;i&gt;.png" in page
    links = re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', page)
    assert len(links) == 3 and all(link.startswith("data:") for link in links)
    assert "<b>2</b>" in page and "None" not in page


def test_files_that_cannot_be_shown_say_why(picture, tmp_path):
    (tmp_path / "empty.png").touch()
    found = [(1, 0.0, "x", str(tmp_path / "empty.png")), (2, 1.0, "x", str(tmp_path / "gone.png"))]
    page = write_search_page(tmp_path / "p.html", picture, found, "", "").read_text("utf-8")
    assert "the file is empty" in page and "there is no such file" in page
    assert page.count("<img") == 1


def test_small_pictures_are_shown_as_they_are(picture, tmp_path):
    Image.new("L", (20, 20)).save(tmp_path / "small.png")
    found = [(1, 0.0, "x", str(tmp_path / "small.png"))]
    page = write_search_page(tmp_path / "p.html", picture, found, "", "").read_text("utf-8")
    assert page.count('<img class="small"') == 1 and page.count("<img") == 2
