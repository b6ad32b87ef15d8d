"""Writes the counts in docs/architecture.md.

.venv/bin/python tools/architecture.py
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- tools/architecture.py writes from here -->\n", "<!-- to here -->\n"


def count(paths):
    """Numbers of modules and lines."""
    lines = [path.read_text("utf-8").count("\n") for path in paths]
    return f"{len(lines):,} | {sum(lines):,}"


def rows():
    """Name, purpose, modules and lines of each package, the other modules and the tests."""
    packages = sorted(path.parent for path in (ROOT / "gsp_tf").glob("*/__init__.py"))
    for package in packages:
        purpose = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8")))
        yield f"| `{package.name}` | {purpose.splitlines()[0]} | {count(package.rglob('*.py'))} |"
    library = ROOT / "gsp_tf"
    yield f"| outside of packages | Command line, names, files. | {count(library.glob('*.py'))} |"
    yield f"| all | | {count(library.rglob('*.py'))} |"
    yield f"| `tests` | | {count((ROOT / 'tests').rglob('*.py'))} |"


if __name__ == "__main__":
    table = "\n".join(
        ["| package | purpose | modules | lines |", "| --- | --- | --- | --- |", *rows()]
    )
    text = PAGE.read_text("utf-8")
    text = re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table}\n\n{END}", text, flags=re.DOTALL)
    PAGE.write_text(text, "utf-8")
