"""Hook of MkDocs: links between docs/ and the rest of the repository work on the site as well.

Pages are written for readers of the repository, and link to what lies beside docs/. The site shows
some files from there as pages of its own; any other file that a page links to is put beside the
pages as it is.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "experiments/README.md": "experiments.md",
    "benchmarks/RESULTS.md": "performance.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def on_files(files, config):
    """Adds the pages and files from outside docs/ and rewrites the links to and from them."""
    docs = Path(config.docs_dir)

    def add(path):
        name = path.relative_to(ROOT).as_posix()
        inside = path.relative_to(docs).as_posix() if path.is_relative_to(docs) else name
        uri = PAGES.get(name, inside)
        if uri not in files.src_uris:
            files.append(File.generated(config, uri, abs_src_path=str(path)))
        return uri

    for name in PAGES:
        add(ROOT / name)
    for page in list(files.documentation_pages()):
        source = Path(page.abs_src_path)

        def moved(link, source=source, page=page):
            path = (source.parent / link[2]).resolve()
            if not (path.is_file() and path.is_relative_to(ROOT)):
                return link[0]
            uri = posixpath.relpath(add(path), posixpath.dirname(page.src_uri))
            return f"{link[1]}{uri}{link[3]}"

        page.content_string = LINK.sub(moved, page.content_string)
    return files
