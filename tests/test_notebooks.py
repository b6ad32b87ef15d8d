"""Runs the notebooks in their short form, and tests what the saved ones show."""

import json
import re
import runpy
from pathlib import Path

import processes
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RESULTS = sorted((ROOT / "experiments/results/studies").glob("*.csv"))
A_MACHINES_PATH = re.compile(r"(?<![\w.])/(home|mnt|opt|private|root|tmp|usr|Users|var|work)/|C:\\")
# Notebooks with a layer, gradients or steps of their own; the others do without tracing.
TRACED = ("01_new_pooling", "14_backward_cost", "15_sensitivity")
# What they show is tested with their studies.
LONGEST = ("14_backward_cost", "15_sensitivity", "17_ccp")
RUN = """
import json
import os
import sys

os.environ["GSP_TF_SHORT"] = "1"
import tensorflow as tf
from IPython.core.interactiveshell import InteractiveShell

tf.config.run_functions_eagerly(sys.argv[2] == "eager")
shell = InteractiveShell.instance()
shell.enable_gui = lambda gui: None
shell.run_line_magic("matplotlib", "inline")
for source in json.loads(sys.argv[1]):
    shell.run_cell(source).raise_error()
"""


def code_cells(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def texts(path):
    """The text outputs of a notebook's cells."""
    for cell in code_cells(path):
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", "")})
            yield from ("".join(text) for kind, text in data.items() if kind.startswith("text/"))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.evidence] if path.stem in LONGEST else [])
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
def test_the_short_form_runs_and_shows_its_pictures(path):
    mode = "traced" if path.stem in TRACED else "eager"
    sources = json.dumps(["".join(cell["source"]) for cell in code_cells(path)])
    process = processes.run(RUN, sources, mode, folder=path.parent)
    assert process.returncode == 0 and "Traceback" not in process.output, process.output


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_saved_as_they_ran_from_top_to_bottom(path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    for output in outputs:
        assert output["output_type"] != "error" and output.get("name") != "stderr"
    for text in texts(path):
        assert not A_MACHINES_PATH.search(text), text
        assert "WARNING" not in text and "Warning" not in text, text


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_tables_of_the_studies_are_in_the_notebooks_or_on_a_page(path):
    table = runpy.run_path(str(ROOT / "experiments/studies/records.py"))["table"](path)
    pages = [page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")]
    assert any(table.strip() in text for text in pages) or any(
        table in text for notebook in NOTEBOOKS for text in texts(notebook)
    )
