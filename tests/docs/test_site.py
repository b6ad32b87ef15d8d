"""The site builds without a warning, holds every public name, and needs nothing from elsewhere."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import processes
import pytest

import gsp_tf

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    places = "--config-file", ROOT / "mkdocs.yml", "--site-dir", folder
    processes.run_fresh("-m", "mkdocs", "build", "--strict", *places)
    return folder


class References(HTMLParser):
    """Addresses that a page loads or links to, and the names of its places."""

    def __init__(self, page):
        super().__init__()
        self.loads, self.links, self.places = [], [], set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places.add(attributes.get("id"))
        if attributes.get("rel") == "canonical":
            return
        if tag == "a":
            self.links.append(attributes.get("href") or "")
        else:
            self.loads += [attributes[name] for name in ("src", "href") if attributes.get(name)]


@pytest.fixture(scope="module")
def references(site):
    return {page: References(page) for page in site.rglob("*.html") if page.name != "404.html"}


def test_pages_load_nothing_from_elsewhere(references):
    for page, found in references.items():
        for address in found.loads:
            assert not urlsplit(address).netloc, f"{page}: {address}"
            assert (page.parent / unquote(urlsplit(address).path)).is_file(), f"{page}: {address}"


def test_links_within_the_site_lead_somewhere(references):
    for page, found in references.items():
        for address in found.links:
            parts = urlsplit(address)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not parts.scheme:
                assert target.is_file(), f"{page}: {address}"
            if not parts.scheme and parts.fragment and target in references:
                assert unquote(parts.fragment) in references[target].places, f"{page}: {address}"


PACKAGES = [name for name in gsp_tf.__all__ if (ROOT / "gsp_tf" / name).is_dir()]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(references, site, package):
    pages = [*site.glob(f"api/{package}.html"), *site.glob(f"api/{package}/*.html")]
    places = set().union(*(references[page].places for page in pages))
    names = {f"gsp_tf.{package}.{name}" for name in getattr(gsp_tf, package).__all__}
    assert names and names <= places


def test_methods_of_private_bases_are_documented(references, site):
    for page, method in (
        ("layers", "layers.GeneralizedSumPooling.pooling_weights"),
        ("layers", "layers.GeneralizedSumPooling.adapt"),
        ("layers", "layers.AttentiveGrouping.attention_maps"),
        ("losses/views", "losses.VICRegLoss.views"),
        ("search", "search.Thresholds.read"),
    ):
        assert f"gsp_tf.{method}" in references[site / f"api/{page}.html"].places, method


def test_the_search_works_from_the_disk(site):
    """A page loads the index as a script; it may not fetch files."""
    index = (site / "search/search_index.js").read_text("utf-8")
    assert "api/losses/proxies.html#gsp_tf.losses.ProxyAnchorLoss" in index


def test_notebooks_are_pages_with_their_pictures_and_formulas(site):
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert (site / f"notebooks/{notebook.stem}.html").is_file()
    page = (site / "notebooks/16_average_pooling.html").read_text("utf-8")
    assert '<img alt="png" src="16_average_pooling/' in page
    assert "<math" in page and "arithmatex" not in page and "$" not in page
