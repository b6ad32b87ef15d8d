"""The picture of the page in docs/explore.md: tools/explore_picture.py RUN PICTURE.

Starts `gsp-tf explore` for a run, drops its first test image on the page in Chromium, and takes a
picture.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from gsp_tf.experiment import RunFolder, load_splits

SIZE = {"width": 1100, "height": 990}


def main(run, picture):
    """Write the picture of a run's page."""
    command = [sys.executable, "-m", "gsp_tf.cli", "explore", run]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as playwright,
    ):
        image = Path(folder) / "query.png"
        Image.fromarray(load_splits(RunFolder(run).recipe()).test.image(0).squeeze()).save(image)
        try:
            address = re.search("http://[^ ]+", server.stdout.readline())[0]
            chromium = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE)
            page.goto(address)
            page.locator("input[type=file]").set_input_files(image)
            page.locator("#neighbours figure").first.wait_for(timeout=120_000)
            page.wait_for_timeout(1000)  # until Gradio has faded the results in
            page.screenshot(path=picture)
            browser.close()
        finally:
            server.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:])
