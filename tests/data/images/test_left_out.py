import os

import pytest
from PIL import Image

from gsp_tf.data import find_unreadable


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two images and a text, checked for the first time."""
    monkeypatch.setenv("GSP_TF_CACHE", str(tmp_path / "cache"))
    for name in ("a.png", "b.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    (tmp_path / "text.png").write_text("no image")
    names = ["text.png", "gone.png", "nul\0.png"]
    paths = [tmp_path / name for name in ("a.png", "b.png", *names)]
    assert [os.path.basename(e.path) for e in find_unreadable(paths)] == names
    return paths[:-1]


def decoded(paths, monkeypatch):
    """The names of the files that are decoded when they are checked again."""
    names, check = [], "gsp_tf.data.images._left_out.check_image"
    monkeypatch.setattr(check, lambda path: names.append(os.path.basename(path)))
    find_unreadable(paths)
    return sorted(names)


def test_a_file_that_passed_is_decoded_again_if_it_changed(files, monkeypatch):
    assert decoded(files, monkeypatch) == ["gone.png", "text.png"]
    os.utime(files[0], ns=(0, 0))
    assert "a.png" in decoded(files, monkeypatch)


@pytest.mark.parametrize("content", [b"", b"broken", None])
def test_a_damaged_or_lost_memory_only_costs_time(files, monkeypatch, tmp_path, content):
    memory = tmp_path / "cache" / "checked_images.npy"
    memory.unlink() if content is None else memory.write_bytes(content)
    assert "a.png" in decoded(files, monkeypatch)
