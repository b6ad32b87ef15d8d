"""Runs notebooks in their full mode and saves them with their outputs.

.venv/bin/python tools/notebooks.py notebooks/*.ipynb

Standard error and the times of cells are left out. A notebook stays unchanged if it fails, or if
its outputs name its working folder or the home folder.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from gsp_tf._files import replace_text


def execute(path):
    """Run a notebook from top to bottom in its folder and save it."""
    path = Path(path).resolve()
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=None,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.pop("language_info", None)
    text = nbformat.writes(notebook) + "\n"
    for private in (str(Path.home()), str(path.parent.parent)):
        if private in text:
            raise ValueError(f"{path.name}: an output holds the path {private}.")
    replace_text(path, text)


if __name__ == "__main__":
    os.environ.pop("GSP_TF_SHORT", None)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for given in sys.argv[1:]:
        execute(given)
        print(given)
