import os
import subprocess
import sys

import gradio
import numpy as np
import pytest
from embedded import save_run
from PIL import Image

from gsp_tf.explore import explore_run, server
from gsp_tf.explore.app import _Exploration, _page
from gsp_tf.explore.collection import open_collection
from gsp_tf.explore.upload import Uploaded, uploaded_file
from gsp_tf.explore.view import ModelView
from gsp_tf.serving.run_model import RunModel


@pytest.fixture(scope="module")
def exploration(view, test_images):
    return _Exploration(view, test_images, 3)


def test_an_image_gets_its_places_and_neighbours(exploration, images):
    query = sorted((images / "<b>8").iterdir())[0]
    places, neighbours = exploration.search(Uploaded(query, "<i>mine.png"))
    assert "&lt;i&gt;mine.png" in places and "<i>" not in places
    assert places.count('alt="pooling weights"') == 1
    assert places.count('alt="prototype of each place"') == 1 and places.count("<svg") == 1
    assert places.count("<li>") == 4 and "has no" not in places
    assert neighbours.count("<figure>") == 3 and "&lt;b&gt;" in neighbours


def test_what_a_view_holds_belongs_together(exploration, images):
    view = exploration.view.look(str(sorted((images / "<b>8").iterdir())[0]))
    assert view.image.shape == (16, 16, 1) and view.image.dtype == np.uint8
    np.testing.assert_allclose(view.attributes.sum(axis=-1), view.weights[..., 0], atol=1e-6)
    np.testing.assert_allclose(view.weights.sum(), 1, atol=1e-5)


def test_files_that_are_no_images_are_told(exploration, tmp_path):
    Image.new("L", (10_000, 9_000)).save(tmp_path / "bomb.png")
    Image.new("L", (40, 40), 7).save(tmp_path / "cut.png")
    cut = (tmp_path / "cut.png").read_bytes()[:50]
    for name, content, reason in (
        ("text.png", b"no image", "not an image"),
        ("cut.png", cut, "truncated"),
        ("bomb.png", None, "at most 89,478,485 are decoded"),
        ("empty.png", b"", "the file is empty"),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        places, neighbours = exploration.search(Uploaded(path, name))
        assert reason in places and name in places and str(tmp_path) not in places
        assert neighbours == ""


def test_nothing_chosen_is_nothing_shown(exploration):
    assert exploration.search(uploaded_file(None, "folder")) == ("", "")


@pytest.mark.parametrize(
    "payload",
    [
        {"path": None, "url": "data:image/png;base64,AAAA"},
        {"path": "/etc/passwd"},
        {"path": "{folder}/../mine.png"},
        {"path": "{folder}/link.png"},
        {"path": "https://example.com/a.png"},
    ],
)
def test_only_what_was_uploaded_is_taken(payload, tmp_path):
    folder = tmp_path / "uploads"
    folder.mkdir()
    (folder / "mine.png").touch()
    (tmp_path / "mine.png").touch()
    (folder / "link.png").symlink_to(tmp_path / "mine.png")
    assert uploaded_file({"path": str(folder / "mine.png")}, folder).name == "mine.png"
    if payload["path"]:
        payload = {"path": payload["path"].format(folder=folder)}
    with pytest.raises(gradio.Error, match="has to be uploaded as a file"):
        uploaded_file(payload, folder)


def test_prototypes_are_looked_at_once(exploration, monkeypatch):
    told = []
    choices, chosen = exploration.choices(None, lambda *numbers: told.append(numbers))
    assert sorted(number for _, number in choices) == [0, 1, 2, 3] and chosen == choices[0][1]
    shares = [float(text.split("(")[1].split(" %")[0]) for text, _ in choices]
    assert shares == sorted(shares, reverse=True) and abs(sum(shares) - 100) < 0.3
    shown = exploration.patches(2, lambda *numbers: told.append(numbers))
    assert shown.count("<figure>") == 12 and shown.count('class="cell"') == 24
    assert told == [(0, 24), (16, 24)]
    assert exploration.choices(3, None)[1] == 3


def test_a_model_without_prototypes_says_so(images, tmp_path):
    model = RunModel(save_run(tmp_path / "gap", images))
    exploration = _Exploration(ModelView(model), open_collection(model), 3)
    query = sorted((images / "<b>8").iterdir())[0]
    places, neighbours = exploration.search(Uploaded(query, "a.png"))
    sentence = "GlobalAveragePooling2D, the pooling of this run, has no"
    assert f"{sentence} weights of places" in places
    assert f"{sentence} attributes of prototypes" in places and "<svg" not in places
    assert neighbours.count("<figure>") == 3
    blocks = _page(exploration).blocks.values()
    shown = [block.value for block in blocks if isinstance(block, gradio.HTML) and block.value]
    assert any(sentence in value for value in shown)


def test_fewer_images_than_neighbours(view, test_images, images):
    query = sorted((images / "<b>8").iterdir())[0]
    neighbours = _Exploration(view, test_images, 99).search(Uploaded(query, "a.png"))[1]
    assert neighbours.count("<figure>") == 24


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"port": 0}, "port must be between 1 and 65535; received 0"),
        ({"max_upload_mb": 0}, "max_upload_mb must be positive; received 0"),
        ({"k": 0}, "k must be 1 or more; received 0"),
    ],
)
def test_bad_arguments(run, arguments, message):
    with pytest.raises(ValueError, match=message):
        explore_run(run, **arguments)


def test_a_port_that_is_taken_is_named(run):
    with server._listening("127.0.0.1", None) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(OSError, match=f"Cannot listen on 127.0.0.1, port {port}: Address"):
            explore_run(run, port=port)
        with server._listening("127.0.0.1", None) as other:
            assert other.getsockname()[1] != port


def test_an_address_that_others_reach_is_noted(monkeypatch):
    monkeypatch.setattr(server, "explore_app", lambda *_: gradio.Blocks(analytics_enabled=False))
    urls = []
    monkeypatch.setattr(
        server._Server, "run", lambda self, sockets: urls.append(server._url(sockets[0]))
    )
    monkeypatch.setenv("GRADIO_TEMP_DIR", "mine")
    with pytest.warns(UserWarning, match="Everybody who reaches 0.0.0.0 can use the page"):
        explore_run("run", host="0.0.0.0")
    assert urls[0].startswith("http://localhost:") and os.environ["GRADIO_TEMP_DIR"] == "mine"


def test_without_gradio_the_extra_is_named():
    code = (
        "import sys; sys.modules['gradio'] = None\n"
        "from gsp_tf.cli import main; main(['explore', 'run'])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 1
    assert 'needs Gradio: pip install ".[explore]"' in process.stderr


def test_gradio_is_not_imported_before_it_is_needed():
    code = "import sys, gsp_tf.cli; assert 'gradio' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
