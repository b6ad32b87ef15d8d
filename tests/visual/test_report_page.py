import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.visual import RunSummary, write_report
from gsp_tf.visual._report_page import _telling_queries


def make_run(name, classes=4, each=6, seed=0, **changes):
    images = np.random.default_rng(9).integers(0, 256, (classes * each, 12, 10, 3), np.uint8)
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    embeddings = rng.normal(size=(classes, 6))[labels] + rng.normal(size=(len(labels), 6))
    weights = rng.dirichlet(np.ones(12), len(labels))
    summary = RunSummary(
        name=name,
        metrics=retrieval_metrics(embeddings, labels),
        history={"loss": [2.0, 1.0], "val_loss": [2.0, 1.5], "val_map_at_r": [0.1, 0.2]},
        images=images,
        labels=labels,
        class_names=[f"class {label}" for label in range(classes)],
        embeddings=embeddings,
        pooling_weights=dict(enumerate(weights.reshape(-1, 4, 3, 1))),
        recipe="pooling:\n  name: gsp\n",
    )
    return replace(summary, **changes)


def write(folder, *runs, **arguments):
    path = write_report(folder / "report.html", "A title", list(runs), **arguments)
    return path.read_text("utf-8")


def section(page, name):
    return re.search(rf'<section id="{name}".*?</section>', page, re.S)[0]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The page of one run."""
    return write(tmp_path_factory.mktemp("one"), make_run("GAP", notes=["interrupted"]))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The page of two runs with different metrics."""
    gap, gsp = make_run("GAP"), make_run("GSP", seed=1)
    gap.metrics.update(map_at_r=0.25, num_queries=1234)
    gsp.metrics.update(map_at_r=0.75, nmi=0.5, other=0.12345, num_skipped=7)
    return write(tmp_path_factory.mktemp("two"), gap, gsp)


def test_holds_every_section(one):
    assert "<title>A title</title>" in one
    assert "interrupted" in section(one, "notes")
    assert "MAP@R" in section(one, "metrics")
    assert section(one, "curves").count("<svg") == 2
    assert section(one, "overlays").count("<img") == 2 * 8
    assert section(one, "gallery").count('<div class="query">') == 8
    assert section(one, "gallery").count("<img") == 8 * (1 + 8)
    assert section(one, "maps").count("<svg") == 1 + 4
    assert "name: gsp" in section(one, "recipes") and "<details>" in one


def test_requests_nothing(two):
    links = re.findall(r'(?:src|href|srcset|action)\s*=\s*"([^"]*)"', two)
    assert links and all(link.startswith(("data:", "#")) for link in links)
    assert "@import" not in two and "<script" not in two
    assert all(link.startswith("#") for link in re.findall(r"url\((.*?)\)", two))


def test_two_runs_share_images_and_the_best_is_bold(one, two):
    table = section(two, "metrics")
    assert '<td class="best">75.00</td>' in table and "<td>25.00</td>" in table
    assert "<td>1,234</td>" in table and "<td>–</td>" in table and "<td>0.1235</td>" in table
    assert '<td class="best">50.00</td>' in table and "k-means" in table
    assert "k-means" not in section(one, "metrics")
    assert "Skipped</th>" in table and "<td>7</td>" in table and "<td>0</td>" in table
    assert "Skipped" not in section(one, "metrics")
    overlays = re.findall(r'src="([^"]*)"', section(two, "overlays"))
    assert len(overlays) == 3 * 8 and len(set(overlays)) == 3 * 8
    assert section(two, "gallery").count('class="query"') == 8
    assert section(two, "gallery").count("<img") == 2 * 8 * (1 + 8)
    assert section(two, "maps").count("<svg") == 2 + 4


def test_only_the_images_that_are_shown_are_read(tmp_path):
    read = Counter()

    class Images:
        def __len__(self):
            return 3000

        def __getitem__(self, index):
            read[index] += 1
            return np.full((8, 8, 1), index % 256, np.uint8)

    weights = {index: np.ones((2, 2, 1)) for index in range(0, 3000, 100)}
    given = {"classes": 300, "each": 10, "images": Images(), "pooling_weights": weights}
    runs = [make_run(name, seed=seed, **given) for seed, name in enumerate(("GAP", "GSP"))]
    read.clear()
    page = write(tmp_path, *runs)
    assert max(read.values()) == 1
    assert len(read) <= 8 + 8 * (1 + 2 * 8) + 3 * 12
    assert section(page, "overlays").count("<img") == 3 * 8


def test_escapes_what_users_name(tmp_path):
    evil = "<script>alert('\"&$x^2$')</script> ع 四"
    page = write(tmp_path, make_run(evil, class_names=[evil] * 4, notes=[evil], recipe=evil))
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(") > 20


def test_is_one_file_and_deterministic(one, tmp_path):
    assert one == write(tmp_path, make_run("GAP", notes=["interrupted"]))
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_history_missing_or_broken(tmp_path):
    assert "No training history" in write(tmp_path, make_run("GAP", history={}))
    broken = make_run("GAP", history={"loss": [np.nan, 1.0], "val_map_at_r": [np.nan, np.nan]})
    page = write(tmp_path, broken, make_run("GSP", history={}))
    assert section(page, "curves").count("<svg") == 1


def test_gallery_leaves_out_classes_of_one_image(tmp_path):
    labels = np.r_[0, 0, np.arange(1, 23)]
    names = {label: f"name {label}" for label in range(23)}
    page = write(tmp_path, make_run("GAP", labels=labels, class_names=names))
    assert section(page, "gallery").count('class="query"') == 2
    lone = make_run("GAP", labels=np.arange(24), class_names=[""] * 24)
    assert "No class has two images" in write(tmp_path, lone)


def test_refuses_runs_that_cannot_be_compared(tmp_path):
    with pytest.raises(ValueError, match="the 12 images of 'GSP' differ .* from the 24 of 'GAP'"):
        write(tmp_path, make_run("GAP"), make_run("GSP", classes=2))
    with pytest.raises(ValueError, match="24 images of 'GSP' differ in number or labels"):
        write(tmp_path, make_run("GAP"), make_run("GSP", labels=np.zeros(24, int)))


def test_shows_the_problems_of_ccp(one, tmp_path):
    first = {
        "steps": 1200,
        "map_at_r": 0.512,
        "covering_radius_before": None,
        "covering_radius_after": 0.25,
        "distance_moved": None,
    }
    second = {**first, "covering_radius_before": 0.5, "distance_moved": 1.25, "map_at_r": 0.6}
    page = write(tmp_path, make_run("ccp", projections=[first, second]), make_run("plain", seed=1))
    rows = re.findall(r"<tr><th scope=\"row\">Problem.*?</tr>", section(page, "projections"))
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in rows]
    assert cells == [
        ["1,200", "51.20", "–", "0.250", "–"],
        ["1,200", "60.00", "0.500", "0.250", "1.250"],
    ]
    assert "Best validation MAP@R, %" in section(page, "projections")
    assert "plain" not in section(page, "projections")
    conventional = {name: first[name] for name in first if name != "map_at_r"}
    page = write(tmp_path, make_run("ccp", projections=[{**conventional, "recall_at_1": 0.25}]))
    assert "Best validation Recall@1, %" in page and "<td>25.00</td>" in page
    assert 'id="projections"' not in one


def test_telling_queries_hold_hits_and_misses():
    hits = np.ones((2, 100), bool)
    hits[:, 50] = False
    hits[0, 70] = False
    assert _telling_queries(hits, 4).tolist() == [70, 0, 50, 1]
    assert len(_telling_queries(hits[:, :2], 8)) == 2
