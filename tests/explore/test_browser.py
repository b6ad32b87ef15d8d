"""The page as a browser shows it: the command in a process, and Chromium without a window."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright

COMMAND = "import sys; from gsp_tf.cli import main; main(sys.argv[1:])"
LIMIT = 100_000


@pytest.fixture(scope="module")
def address(run, index, tmp_path_factory):
    """Address of the page of a run and an index, served by the command; it ends well."""
    folder = tmp_path_factory.mktemp("temporary")
    options = ["explore", run, "--index", index, "--k", "4", "--max-upload-mb", str(LIMIT / 1e6)]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, options)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), "TMPDIR": str(folder)},
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("Page: http://127.0.0.1:"), line
        yield line.split()[1]
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=60)[0]
    assert (process.returncode, rest, kept(folder)) == (0, "", [])


def kept(folder):
    """Files in a temporary folder, but those in which TensorFlow keeps code."""
    return [path for path in folder.rglob("*") if path.is_file() and "py" not in path.suffix]


@pytest.fixture(scope="module")
def requested():
    """What the browser asked for."""
    return []


@pytest.fixture(scope="module")
def page(address, requested):
    """The page, open in Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.goto(address)
        yield page
        browser.close()
    hosts = {urlsplit(url).netloc for url in requested if not url.startswith(("data:", "blob:"))}
    assert hosts == {urlsplit(address).netloc}


def upload(page, path):
    """Choose a file on the page, in the place of the one that is there."""
    page.get_by_role("tab", name="Search").click()
    remove = page.get_by_label("Remove Image")
    if remove.is_visible():
        remove.click()
    page.locator("input[type=file]").set_input_files(path)


def check_that_it_finds_itself(page, path):
    """An image of the index gets neighbours, of which it is the nearest, with their pictures."""
    upload(page, path)
    expect(page.locator("#places h3").first).to_contain_text(path.name, timeout=60_000)
    found = page.locator("#neighbours figure")
    expect(found).to_have_count(4)
    nearest = found.first
    expect(nearest.locator("b")).to_have_text(f"1 · {path.parent.name}")
    expect(nearest.locator("figcaption")).to_contain_text(path.name)
    assert float(nearest.locator(".number").inner_text()) < 1e-3
    widths = page.locator(".picture img").evaluate_all("all => all.map(i => i.naturalWidth)")
    assert len(widths) == 3 + 4 and min(widths) >= 20


def test_an_image_gets_neighbours_and_overlays(page, images):
    upload(page, next((images / "<b>1").iterdir()))
    expect(page.get_by_label("Remove Image")).to_be_visible()
    # It is replaced before it is answered.
    check_that_it_finds_itself(page, sorted((images / "<b>7").iterdir())[3])
    expect(page.locator("#places .weights img")).to_be_visible()
    expect(page.locator("#places .dominant img")).to_be_visible()
    expect(page.locator("#places svg")).to_be_visible()
    expect(page.locator("#places .largest li")).to_have_count(4)


def test_what_is_no_image_is_told_and_the_page_goes_on(page, images, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.png")
    assert (tmp_path / "large.png").stat().st_size > LIMIT
    upload(page, tmp_path / "text.png")
    notice = page.locator("#places .notice")
    expect(notice).to_contain_text("text.png: not an image of an accepted format", timeout=60_000)
    expect(page.locator("#neighbours figure")).to_have_count(0)
    upload(page, tmp_path / "large.png")
    expect(page.get_by_text(re.compile("exceed.*size", re.I)).first).to_be_visible()
    check_that_it_finds_itself(page, sorted((images / "<b>2").iterdir())[0])


def test_prototypes_show_their_strongest_patches(page):
    page.get_by_role("tab", name="Prototypes").click()
    patches = page.locator("#patches figure")
    expect(patches).to_have_count(12, timeout=60_000)
    expect(page.locator("#patches .hint")).to_contain_text("The places of 80 images")
    expect(patches.first.locator(".cell")).to_have_count(2)
    prototype = page.get_by_label("Prototype", exact=True)
    before = prototype.input_value()
    prototype.click()
    page.get_by_role("option").last.click()
    chosen = prototype.input_value()
    assert chosen != before
    number = chosen.split(" ")[0]
    expect(page.locator("#patches .hint")).to_contain_text(f"by way of prototype {number},")
    expect(patches).to_have_count(12)


def test_only_this_machine_reaches_the_page(address):
    port = urlsplit(address).port
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_no_file_of_the_machine_is_served(address, run, images):
    some = [run / "recipe.yaml", next((images / "<b>1").iterdir()), "/etc/passwd"]
    for path in some:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/gradio_api/file={quote(str(path))}")
        assert refused.value.code == 403


def test_the_server_limits_uploads_and_takes_no_paths(address, images):
    answer = httpx.post(f"{address}/gradio_api/upload", files={"files": b"0" * (LIMIT + 1)})
    assert answer.status_code == 413
    answer = httpx.post(f"{address}/gradio_api/upload", files={"files": b"0" * (LIMIT - 1)})
    (uploaded,) = answer.json()
    assert Path(uploaded).is_file() and "gsp-tf-explore-" in uploaded
    kind = {"meta": {"_type": "gradio.FileData"}}
    path = str(next((images / "<b>1").iterdir()))
    for named in ({"path": path, **kind}, {"path": path}, {"path": path, "meta": {"_type": "x"}}):
        joined = httpx.post(
            f"{address}/gradio_api/queue/join",
            json={"data": [named], "fn_index": 0, "session_hash": "mine"},
        )
        assert joined.status_code == 200
        with httpx.stream("GET", f"{address}/gradio_api/queue/data?session_hash=mine") as events:
            told = "".join(events.iter_text())
        assert '"success":false' in told and "figure" not in told, named
