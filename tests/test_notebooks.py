"""Runs the notebooks in their short form, and tests what the saved ones show."""

import json
import re
import runpy
import shutil
from pathlib import Path

import processes
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RESULTS = sorted((ROOT / "experiments/results/studies").glob("*.csv"))
A_MACHINES_PATH = re.compile(r"(?<![\w.])/(home|mnt|opt|private|root|tmp|usr|Users|var|work)/|C:\\")
# Notebooks with a layer, gradients or steps of their own; the others do without tracing.
TRACED = ("09_machines", "14_backward_cost", "15_sensitivity", "19_new_pooling")
# What they show is tested with their studies.
LONGEST = ("14_backward_cost", "15_sensitivity", "17_ccp")
ON_ANY_BACKEND = "08_backends"
# Before and after the cells of a guide.
PREPARED = {
    "09_machines": "from gsp_tf.search import collection as workers\n"
    "from ray_jobs import ray_without_processes\n"
    "workers._ray_session = ray_without_processes"
}
CHECKS = {
    "01_find_similar": "assert means['precision_at_1'].value > 0.6\n"
    "assert first.label == new and lacking.label != new\n"
    "assert [found.path for found in answers[0]][0] == paths[queries[0]]",
    "02_reidentify": "assert honest['precision_at_1'].value < naive['precision_at_1'].value\n"
    "assert means['precision_at_1'].value > honest['precision_at_1'].value + 0.2",
    "03_clean": "assert found.count >= 4 and found.num_mixed >= 1\n"
    "assert sum(row in first for row in moved) >= 4",
    "04_fine_tune_and_ship": "for found in vectors.values():\n"
    "    assert np.abs(found - expected).max() < 1e-5\n"
    "assert answer.json()[0]['label'] == query.parent.name and refused.status_code == 422",
    "05_own_model": "assert np.allclose(weights.sum(axis=(1, 2)), 1, atol=1e-5)\n"
    "assert average.output_shape == gsp.output_shape",
    "06_own_loss": "assert abs(ours - expected) < 1e-5 * expected\n"
    "assert np.abs(theoretical[0] - numerical[0]).max() < 1e-6\n"
    "assert values['loaded'] == ours != values['cosine']\n"
    "assert history['val_map_at_r'][-1] > untrained['val_map_at_r']",
    "07_migrate": "assert max(differences) < 1e-5",
    "08_backends": "assert keras.backend.backend() == os.environ['KERAS_BACKEND']\n"
    "assert done.stdout.split()[-1] == other and difference < 1e-5",
    "09_machines": "assert np.abs(np.subtract(alone, shared)).max() < 1e-5 and difference < 1e-5\n"
    "assert len(vectors.vectors) == len(images)",
}
RUN = """
import json
import os
import sys

sys.path.insert(0, "")
os.environ["GSP_TF_SHORT"] = "1"
from IPython.core.interactiveshell import InteractiveShell

if sys.argv[2:] == ["eager"]:
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
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


def sources(path):
    """The cells of a notebook as JSON, with what the tests do before and after them."""
    cells = ["".join(cell["source"]) for cell in code_cells(path)]
    return json.dumps([PREPARED.get(path.stem, ""), *cells, CHECKS.get(path.stem, "")])


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder where guides run one after the other: they share drawn photographs and runs."""
    folder = tmp_path_factory.mktemp("notebooks")
    shutil.copy(ROOT / "notebooks/drawn.py", folder)
    return folder


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.evidence] if path.stem in LONGEST else [])
        for path in NOTEBOOKS
        if path.stem != ON_ANY_BACKEND
    ],
    ids=lambda path: path.stem,
)
def test_the_short_form_runs_and_shows_its_pictures(path, folder):
    mode = "traced" if path.stem in TRACED else "eager"
    where = folder if path.stem in CHECKS else path.parent
    process = processes.run(RUN, sources(path), mode, folder=where)
    assert process.returncode == 0 and "Traceback" not in process.output, process.output


@pytest.mark.parametrize("backend", ["torch", pytest.param("jax", marks=[pytest.mark.evidence])])
def test_the_guide_to_backends_runs_in_a_new_process(backend, tmp_path):
    path = next(path for path in NOTEBOOKS if path.stem == ON_ANY_BACKEND)
    processes.run_fresh("-c", RUN, sources(path), folder=tmp_path, KERAS_BACKEND=backend)


def test_every_guide_is_checked():
    assert {path.stem for path in NOTEBOOKS if path.stem < "10"} == {*CHECKS}


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
