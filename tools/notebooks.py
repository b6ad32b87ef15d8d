"""Runs notebooks in their full mode and saves them with their outputs.

.venv/bin/python tools/notebooks.py notebooks/1*.ipynb
.venv/bin/python tools/notebooks.py --photographs data/grocery notebooks/0[1349]*.ipynb

Studies run in their folder. Guides (0*) run one after the other in a temporary folder, beside
`drawn.py`. With `--photographs`, it holds the folder `my_images`: some photographs of some classes
of the given folder. Standard error and the times of cells are left out. A notebook stays unchanged
if it fails, or if its outputs name its working folder or the home folder.
"""

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from gsp_tf._files import replace_text

_CLASSES, _OF_A_CLASS = 40, 12


def execute(path, folder):
    """Run a notebook from top to bottom in a folder and save it where it is."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=None,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.pop("language_info", None)
    text = nbformat.writes(notebook) + "\n"
    for private in (str(Path.home()), str(path.resolve().parents[1]), str(folder)):
        if private in text:
            raise ValueError(f"{path.name}: an output holds the path {private}.")
    replace_text(path, text)


def copy_some(photographs, folder):
    """Copy the first photographs of evenly spaced classes."""
    classes = sorted(path for path in photographs.iterdir() if path.is_dir())
    for chosen in classes[:: max(1, len(classes) // _CLASSES)][:_CLASSES]:
        (folder / chosen.name).mkdir(parents=True)
        for file in sorted(chosen.iterdir())[:_OF_A_CLASS]:
            shutil.copy(file, folder / chosen.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--photographs", type=Path, help="folder of photographs by class")
    given = parser.parse_args()
    os.environ.pop("GSP_TF_SHORT", None)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        shutil.copy(Path(__file__).parents[1] / "notebooks/drawn.py", folder)
        if given.photographs:
            copy_some(given.photographs, folder / "my_images")
        for path in given.notebooks:
            execute(path, folder if path.name.startswith("0") else path.resolve().parent)
            print(path)
