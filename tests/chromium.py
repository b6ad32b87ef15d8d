"""A browser for tests of pages."""

import contextlib
import shutil

import pytest
from playwright.sync_api import sync_playwright


@contextlib.contextmanager
def chromium():
    """Chromium; the test is skipped where there is none."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()
