"""Makes the picture of the page in docs/explore.md: tools/explore_picture.py RUN PICTURE.

Starts `gsp-tf explore` for a run, clicks the first example of the page in Chromium, and saves a
picture.
"""

import re
import shutil
import subprocess
import sys

from playwright.sync_api import sync_playwright

SIZE = {"width": 1100, "height": 990}


def main(run, picture):
    """Save the picture of a run's page."""
    command = [sys.executable, "-m", "gsp_tf.cli", "explore", run]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as playwright,
    ):
        try:
            address = re.search("http://[^ ]+", server.stdout.readline())[0]
            chromium = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE)
            page.goto(address)
            page.locator("[data-example]").first.click()
            page.locator(".neighbours figure").first.wait_for(timeout=120_000)
            page.screenshot(path=picture)
            browser.close()
        finally:
            server.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:])
