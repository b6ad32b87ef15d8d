import io
import unicodedata
from collections import Counter

import numpy as np
import pytest

from gsp_tf.data import load_glyphs


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("glyphs")


@pytest.fixture(scope="module")
def glyphs(cache):
    return load_glyphs(size=24, images_per_class=2, cache_dir=cache)


def test_several_hundred_classes_of_many_scripts(glyphs):
    scripts = Counter(glyphs.groups)
    assert 400 < len(glyphs.class_names) < 800
    assert {"LATIN", "GREEK", "CYRILLIC", "ARABIC", "CANADIAN"} <= set(scripts)
    assert min(scripts.values()) >= 8
    assert len(set(glyphs.class_names)) == len(glyphs.class_names)
    assert (np.bincount(glyphs.labels) == 2).all()


def test_letters_that_look_alike_are_one_class(glyphs):
    names = set(glyphs.class_names)
    letters = {unicodedata.lookup(name) for name in names}
    assert {"A", "a", "b", "d", "g", "R"} <= letters
    assert not letters & set("ΑАoОοоÅáΒВsz")


def test_deterministic_and_seeded(tmp_path, monkeypatch):
    """Of letters without case in the fonts of one family, which are few."""
    monkeypatch.setattr("gsp_tf.data.datasets.glyphs._LETTERS", ("Lo",))
    monkeypatch.setattr("gsp_tf.data.datasets.glyphs._FONT_FAMILIES", ("DejaVuSansMono",))
    one, again, other = (
        load_glyphs(size=8, images_per_class=1, seed=seed, cache_dir=tmp_path / folder)
        for seed, folder in ((0, "a"), (0, "b"), (1, "a"))
    )
    np.testing.assert_array_equal(one.images, again.images)
    assert one.class_names == again.class_names == other.class_names
    assert (one.images != other.images).any()
    assert len(list((tmp_path / "a").iterdir())) == 2


def stale(content):
    buffer = io.BytesIO()
    np.savez(buffer, key="old", images=np.zeros((1, 24, 24, 1), np.uint8), letters="A")
    return buffer.getvalue()


@pytest.mark.parametrize("damage", [stale, lambda content: content[:-500]], ids=["stale", "cut"])
def test_a_broken_or_stale_cache_is_rebuilt(glyphs, cache, tmp_path, monkeypatch, damage):
    (whole,) = cache.iterdir()
    (tmp_path / whole.name).write_bytes(damage(whole.read_bytes()))
    letters = "".join(unicodedata.lookup(name) for name in glyphs.class_names)
    rendered = [(glyphs.images, letters)]
    monkeypatch.setattr("gsp_tf.data.datasets.glyphs._render", lambda *arguments: rendered.pop())
    for _ in range(2):
        again = load_glyphs(size=np.int64(24), images_per_class=2, cache_dir=tmp_path)
        np.testing.assert_array_equal(again.images, glyphs.images)
        assert again.class_names == glyphs.class_names
    assert not rendered
    assert len(list(tmp_path.iterdir())) == 1
