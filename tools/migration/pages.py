"""Writes the tables of docs/migration and README.md from `table.yaml` and the `.txt` files.

.venv/bin/python tools/migration/pages.py

A table lies between `<!-- table: LIBRARY, SECTION -->` and `<!-- end of table -->`; with `, names`
it has no differences.
"""

import re
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TABLE = yaml.safe_load((HERE / "table.yaml").read_text("utf-8"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/migration").glob("*.md"))]
# Classes that a few lines replace, and not argument by argument: their parameters are left out.
WHOLE = re.compile(
    r"(testers|trainers|datasets|indexer|visualization)\.|"
    r"utils\.(logging_presets\.HookContainer|inference\.InferenceModel)"
)
MARKED = re.compile(
    r"(<!-- table: (\w+), ([\w ]+?)(, names)? -->\n).*?(<!-- end of table -->)", re.S
)


def signatures(library):
    """The signature of each public name of a library."""
    lines = (HERE / f"{library}.txt").read_text("utf-8").splitlines()
    return {line.split("(")[0]: line for line in lines}


def entries(row, key):
    """The expressions of a cell in a list."""
    value = row.get(key, [])
    return [*value] if isinstance(value, list) else [value]


def table(library, section, with_differences):
    """The Markdown table of a section."""
    known = signatures(library)
    columns = [f"`{library}`", "here", "what differs"][: 2 + with_differences]
    lines = [columns, ["---"] * len(columns)]
    for row in TABLE[library][section]:
        theirs = entries(row, "theirs")
        if "ours" in row and not WHOLE.match(theirs[0]):
            theirs[0] = known.get(theirs[0], theirs[0])
        cells = [_code(theirs), _code(entries(row, "ours")) or "none", row["difference"]]
        lines.append(cells[: len(columns)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def page(text):
    """The text of a page with the current tables."""
    return MARKED.sub(
        lambda found: found[1] + table(found[2], found[3], not found[4]) + found[5], text
    )


def _code(expressions):
    return ", ".join(f"`{expression}`" for expression in expressions)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path.read_text("utf-8")), "utf-8")
