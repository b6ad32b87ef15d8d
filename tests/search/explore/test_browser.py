"""The page as Chromium shows it; what it sends for pages of other sites is in test_guard.py."""

import shutil
import socket
import time
from urllib.parse import urlsplit

import processes
import pytest
from playwright.sync_api import expect, sync_playwright

expect.set_options(timeout=60_000)

COMMAND = """
import sys, tempfile
tempfile.tempdir = sys.argv.pop(1)
from gsp_tf.cli import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def address(run, index, tmp_path_factory):
    """Address of the page of a run and an index, served by the command; it ends well."""
    folder = tmp_path_factory.mktemp("temporary")
    options = ["explore", run, "--index", index, "--k", "4", "--max-upload-mb", 0.1]
    log = folder / "log.txt"
    with log.open("w") as output:
        process = processes.start(COMMAND, folder, *options, output=output)
    try:
        while not log.read_text().endswith("\n"):
            assert process.is_alive()
            time.sleep(0.02)
        printed = log.read_text()
        assert printed.startswith("Page: http://127.0.0.1:") and printed.count("\n") == 1, printed
        url = printed.split()[1]
        yield url
        with pytest.raises(ConnectionRefusedError):  # only this machine's own address answers
            socket.create_connection(("127.0.0.2", urlsplit(url).port), timeout=5)
    finally:
        process.terminate()
        process.join(60)
    # TensorFlow keeps code in files there.
    left = [path for path in folder.rglob("*") if path.is_file() and "py" not in path.suffix]
    assert (process.exitcode, log.read_text(), left) == (0, printed, [log])


@pytest.fixture(scope="module")
def page(address):
    """The page in Chromium; it asks nobody else for anything and breaks no rule."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    requested, complaints = [], []
    with sync_playwright() as playwright:
        options = {"executable_path": path, "args": ["--no-sandbox", "--disable-gpu"]}
        browser = playwright.chromium.launch(**options)
        page = browser.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        yield page
        browser.close()
    hosts = {urlsplit(url).netloc for url in requested if not url.startswith("data:")}
    assert hosts == {urlsplit(address).netloc}
    # Chromium notes the answers of the tests that are refusals.
    assert [text for text in complaints if "status of 422" not in text] == []


def nearest_of(page, name):
    """An image gets four neighbours, with pictures of what it shares with them; the nearest."""
    expect(page.locator(".places h3").first).to_contain_text(name)
    found = page.locator(".neighbours figure")
    expect(found).to_have_count(4)
    widths = page.locator("#found img").evaluate_all("all => all.map(i => i.naturalWidth)")
    assert len(widths) == 3 + 4 + 4 and min(widths) >= 20  # and what the nearest four share
    return found.first


def test_an_example_gets_neighbours_and_overlays(page):
    example = page.locator("[data-example]").first
    name = example.get_attribute("title")
    page.locator("[data-example]").nth(3).click()
    example.click()  # before the other is answered
    expect(nearest_of(page, name).locator("figcaption")).not_to_contain_text(name)
    for shown in (".weights img", ".dominant img", "svg"):
        expect(page.locator(f".places {shown}")).to_be_visible()


TRANSFER = """([kind, data, name, bytes]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], name));
    const of_kind = kind === "drop" ? DragEvent : ClipboardEvent;
    document.body.dispatchEvent(
        new of_kind(kind, {bubbles: true, cancelable: true, [data]: transfer}));
}"""


def test_an_image_that_is_chosen_dropped_or_pasted_gets_neighbours(page, images):
    *_, chosen, dropped, pasted = sorted((images / "<b>7").iterdir())
    for path, kind, data in (
        (chosen, "choose", None),
        (dropped, "drop", "dataTransfer"),
        (pasted, "paste", "clipboardData"),
    ):
        if kind == "choose":
            page.locator("input[type=file]").set_input_files(path)
        else:
            page.evaluate(TRANSFER, [kind, data, path.name, list(path.read_bytes())])
        nearest = nearest_of(page, path.name)  # itself
        expect(nearest.locator("b")).to_have_text("1 · <b>7")
        expect(nearest.locator("figcaption")).to_contain_text(path.name)
        assert float(nearest.locator(".number").inner_text()) < 1e-3
