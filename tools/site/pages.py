"""MkDocs hook that shows the whole repository on the site: links, notebooks and formulas.

Pages are written for readers of the repository and link to files outside docs/. The site shows the
notebooks and some of these files as pages. Other linked files are copied next to the pages.
Formulas in dollar signs become MathML.
"""

import posixpath
import re
from html import unescape
from pathlib import Path

import nbformat
from latex2mathml.converter import convert
from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "experiments/README.md": "experiments.md",
    "benchmarks/RESULTS.md": "performance.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
WORKER = "search_from_disk.js"
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
CELL = re.compile(r"<td>.*?</td>", re.DOTALL)
CODE = re.compile(r"<code>[^<]*</code>")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files, config):
    """Adds pages and files from outside docs/ and rewrites the links to and from them."""
    docs = Path(config.docs_dir)

    def add(path):
        if path.suffix == ".ipynb":
            return _page_of(path)
        name = path.relative_to(ROOT).as_posix()
        inside = path.relative_to(docs).as_posix() if path.is_relative_to(docs) else name
        uri = PAGES.get(name, inside)
        if uri not in files.src_uris:
            files.append(File.generated(config, uri, abs_src_path=str(path)))
        return uri

    files.append(File.generated(config, WORKER, abs_src_path=str(Path(__file__).with_name(WORKER))))
    for name in PAGES:
        add(ROOT / name)
    notebooks = {_page_of(path): path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    for path in notebooks.values():
        _add_notebook(path, files, config)
    for page in list(files.documentation_pages()):
        source = Path(page.abs_src_path or notebooks[page.src_uri])

        def moved(link, source=source, page=page):
            path = (source.parent / link[2]).resolve()
            if not (path.is_file() and path.is_relative_to(ROOT)):
                return link[0]
            uri = posixpath.relpath(add(path), posixpath.dirname(page.src_uri))
            return f"{link[1]}{uri}{link[3]}"

        page.content_string = LINK.sub(moved, page.content_string)
    return files


def _page_of(notebook):
    return f"notebooks/{notebook.stem}.md"


def _add_notebook(notebook, files, config):
    """Adds a notebook with its outputs as a page, with its pictures next to the page."""
    node = nbformat.read(notebook, 4)
    node.metadata.setdefault("language_info", {"name": "python"})  # for syntax highlighting
    folder = {"output_files_dir": notebook.stem}
    text, resources = MarkdownExporter().from_notebook_node(node, folder)
    files.append(File.generated(config, _page_of(notebook), content=text))
    for name, content in resources["outputs"].items():
        files.append(File.generated(config, f"notebooks/{name}", content=content))


def on_page_content(html, page, config, files):
    """Formulas as MathML, which browsers display natively; long calls in tables may break."""

    def shown(formula):
        display = "block" if formula[1] == "div" else "inline"
        return convert(unescape(formula[2]), display=display)

    if page.file.src_uri.startswith("migration/"):  # three columns of calls
        html = CELL.sub(lambda cell: CODE.sub(_breakable, cell[0]), html)
    return FORMULA.sub(shown, html)


def _breakable(code):
    """A code element that may break after its parentheses, dots and equal signs."""
    return re.sub(r"([(.=])(?=[^<])", r"\1<wbr>", code[0])


def on_post_page(output, page, config):
    """The search from the disk takes its worker from the site, and nothing from the net."""
    worker = posixpath.relpath(WORKER, posixpath.dirname(page.url) or ".")
    return output.replace("https://unpkg.com/iframe-worker/shim", worker)
