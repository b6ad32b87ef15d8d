import os
import re
import shutil
from pathlib import Path
from urllib.parse import quote

import jinja2
import pytest
from embedded import thresholds_at

from gsp_tf.search import build_index, calibrate, embed_images
from gsp_tf.search.explore import _page
from gsp_tf.search.explore._model_view import ModelView
from gsp_tf.search.explore._page import Exploration, page_app
from gsp_tf.search.explore._searched import NoImages, file_name, open_images


@pytest.fixture(scope="module")
def query(images):
    return sorted((images / "<b>8").iterdir())[0].read_bytes()


@pytest.fixture(scope="module")
def page(serve, exploration):
    return serve(page_app(exploration))


def test_the_first_page_says_what_is_explored(page, ask):
    answer = ask(page, "/", "GET")
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    for text in ("<h1>digits</h1>", "conv4", "GeneralizedSumPooling, 4 prototypes", "8 dimensions"):
        assert text in answer.body
    assert "24 test images of the run</dd>" in answer.body
    assert "<dt>Classes</dt><dd>3</dd>" in answer.body
    assert answer.body.count("data-example=") == answer.body.count("<img ") == 8
    assert "&lt;b&gt;" in answer.body and "<b>8" not in answer.body


def test_an_image_gets_its_places_and_neighbours(page, ask, query):
    answer = ask(page, "/search?name=%3Ci%3Emine.png", body=query)
    assert answer.status == 200 and "&lt;i&gt;mine.png" in answer.body and "<i>" not in answer.body
    assert answer.body.count('alt="pooling weights"') == 1
    assert answer.body.count('alt="prototype of each place"') == 1
    assert answer.body.count("<svg") == 1 and answer.body.count("<li>") == 4
    places, rest = answer.body.split("Nearest neighbours")
    neighbours, why = rest.split("Why these")
    assert places.count("<figure") == 3 and neighbours.count("<figure>") == 3
    assert "has no" not in places and "&lt;b&gt;" in neighbours
    assert why.count("<figure>") == 3 and "matched places of &lt;i&gt;mine.png and" in why


def test_an_example_finds_others_and_not_itself(view, model, index, page, serve, ask):
    indexed = serve(page_app(Exploration(view, open_images(model, index), 99)))
    for port, count in ((page, 3), (indexed, 79)):
        first = ask(port, "/", "GET").body
        name = first.split('data-example="1" title="')[1].split('"')[0]
        answer = ask(port, "/examples/1")
        assert f"<h3>{name}, as the model sees it</h3>" in answer.body
        nearest = answer.body.split("Nearest neighbours")[1].split("Why these")[0]
        assert nearest.count("<figure>") == count and f"</span>{name}" not in nearest
        assert ask(port, "/examples/8").status == 404


def test_no_file_of_the_machine_is_served(page, run, images, ask):
    for path in (run / "recipe.yaml", next((images / "<b>1").iterdir()), "/etc/passwd"):
        path = quote(str(path))
        for asked in (f"/{path}", f"/..{path}", f"/%2e%2e{path}"):
            assert ask(page, asked, "GET").status == 404
        assert ask(page, "/search", body=path.encode()).status == 422


def test_the_page_says_why_it_refuses_a_file_before_the_model_sees_it(page, ask, monkeypatch):
    monkeypatch.setattr(ModelView, "look", None)
    for content, reason in ((b"no image", "not an image"), (b"", "the file is empty")):
        answer = ask(page, "/search?name=a.png", body=content)
        assert answer.status == 422 and answer.body.startswith("a.png: ")
        assert reason in answer.body and "<" not in answer.body


def test_prototypes_are_looked_at_once(page, ask, monkeypatch):
    answer = ask(page, "/prototypes")
    while answer.status == 202:
        answer = ask(page, "/prototypes")
    options = answer.body.split("<option value=")[1:]
    assert sorted(int(option[1]) for option in options) == [0, 1, 2, 3]
    shares = [float(option.split("(")[1].split(" %")[0]) for option in options]
    assert shares == sorted(shares, reverse=True) and abs(sum(shares) - 100) < 0.3
    assert f"by way of prototype {options[0][1]}," in answer.body
    monkeypatch.setattr(Exploration, "browser", None)
    answer = ask(page, "/prototypes/2")
    assert "by way of prototype 2," in answer.body
    assert answer.body.count("<figure>") == 12 and answer.body.count('class="cell"') == 24
    assert ask(page, "/prototypes/4").status == 404


def test_what_the_model_refuses_is_told(asked, serve, ask, monkeypatch):
    def refuse(*_):
        raise ValueError("None of the images can be read.")

    monkeypatch.setattr(asked, "browser", refuse)
    answer = ask(serve(page_app(asked)), "/prototypes/0")
    assert (answer.status, answer.body) == (500, "None of the images can be read.")


def test_without_images_the_places_are_shown_and_what_to_do(view, query, serve, ask):
    port = serve(page_app(Exploration(view, NoImages("no data"), 3)))
    first, found = ask(port, "/", "GET").body, ask(port, "/search", body=query).body
    assert "gsp-tf embed" in first and "gsp-tf embed" in found
    assert found.count("<figure") == 3 and "data-example" not in first
    assert ask(port, "/prototypes").status == ask(port, "/examples/0").status == 404


@pytest.mark.parametrize("has_index", [True, False])
def test_thresholds_say_what_matches_but_an_uploaded_file_that_is_searched_does_not_decide(
    view, model, run, index, query, has_index, tmp_path, monkeypatch
):
    thresholds = calibrate(run, 0.05, out=tmp_path / "thresholds.json", num_resamples=5)
    searched = open_images(model, index if has_index else None, thresholds)
    text = Exploration(view, searched, 10).search(query, "a.png")
    number = r'class="number"><span class="decision (\w+)">\1</span> ([\d.]+)</span>(.*?)</fig'
    rows = re.findall(number, text)
    assert len(rows) == 10 and thresholds.summary() in text
    assert [row[0] for row in rows] == [thresholds.decide(float(row[1])) for row in rows]
    assert [row for row in rows if "the same file" in row[2]] == rows[:1]
    assert f'Nearest neighbours: <span class="decision {rows[1][0]}">' in text
    strict = thresholds_at(thresholds, match=1e-6, unknown=2e-6)  # what matches is the file itself
    monkeypatch.setattr(searched, "thresholds", strict)
    text = Exploration(view, searched, 3).search(query, "a.png")
    assert 'Nearest neighbours: <span class="decision unknown">' in text
    assert "<h3>Nearest neighbours</h3>" in Exploration(view, searched, 1).search(query, "a.png")


def test_conditions_restrict_the_search(view, model, index, images, query, tmp_path, serve, ask):
    names = sorted(map(str, images.rglob("*.png")))
    table = tmp_path / "t.csv"
    lines = [f"{name},{row % 3}" for row, name in enumerate(names)]
    table.write_text("\n".join(["path,camera", *lines]), "utf-8")
    path = build_index(index.parent / "embeddings", tmp_path / "index", table=table).path
    page = serve(page_app(Exploration(view, open_images(model, path), 5)))
    first = ask(page, "/", "GET").body
    assert 'id="where"' in first and "Columns: path, label, camera; path is the name" in first
    second, fifth = (Path(names[row]).name for row in (2, 5))
    for where, count in (
        (f"camera == 2 and path != {second!r}", 5),
        (f"path in ({second!r}, {fifth!r})", 2),
    ):
        answer = ask(page, f"/search?name=a.png&where={quote(where)}", body=query)
        found = answer.body.split("Nearest neighbours")[1].split("Why these")[0]
        assert answer.status == 200 and found.count("<figure>") == count
    for where, message in (
        ("__import__('os')", "cannot be used"),
        ("camera == 9", "No other image meets the condition"),
        ("id == 1", "no column id"),
    ):
        answer = ask(page, f"/examples/1?where={quote(where)}")
        assert answer.status == 422 and message in answer.body
    whole = f"path {{}} {names[40]!r}"  # nothing tells where the files are
    answers = [ask(page, f"/search?where={quote(whole.format(by))}", body=query) for by in "<>"]
    none = f"path >= {str(images)!r} and path < {str(images)[:-1] + 'z'!r}"
    answers.append(ask(page, f"/search?where={quote(none)}", body=query))
    assert [answer.status for answer in answers] == [422, 200, 422]


def test_answers_hide_the_folders(view, model, run, images, query, serve, ask, tmp_path):
    own = tmp_path / "copies"
    shutil.copytree(images, own)
    path = build_index(embed_images(run, [own], tmp_path / "e"), tmp_path / "index").path
    port = serve(page_app(Exploration(view, open_images(model, path), 3)))
    answers = [ask(port, "/", "GET")]
    shutil.rmtree(own)
    answers += [ask(port, "/examples/0"), ask(port, "/prototypes"), ask(port, "/search", body=b"")]
    asked = [f"/search?where={quote(where)}" for where in ("no", "id", "'")]
    answers += [ask(port, path, body=query) for path in asked]
    while answers[2].status == 202:
        answers[2] = ask(port, "/prototypes")
    assert [answer.status for answer in answers] == [200, 500, 500, *4 * [422]]
    assert answers[1].body == "it failed; the terminal says why"
    bodies = "".join(answer.body for answer in answers)
    assert str(tmp_path) not in bodies and str(images) not in bodies


def test_names_that_are_no_unicode_can_be_sent(monkeypatch):
    name = os.fsdecode(b"/photos/caf\xe9.png")
    assert file_name(name).encode("utf-8") == b"caf\\udce9.png"
    template = jinja2.Template("<b>{{ label }}</b>")
    monkeypatch.setattr(_page, "page_template", lambda *_: template)
    assert _page._rendered("any.html", label=name).encode("utf-8") == b"<b>/photos/caf?.png</b>"
