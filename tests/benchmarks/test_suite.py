import re
import runpy
import shutil
from pathlib import Path

import processes
import pytest
import tensorflow as tf

from gsp_tf import cli
from gsp_tf.commands import bench

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = runpy.run_path(str(BENCHMARKS / "suite.py"))["benchmark_names"]()
PROGRAM = """
import runpy, sys
from pathlib import Path

sys.argv.pop(0)
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
WORKS = """
import os, sys
from pathlib import Path

def run(quick=False):
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    with Path(__file__).with_name("log").open("a") as log:
        print(devices, *sys.argv[1:], file=log)

run()
"""
FAILS = """
def run(quick=False):
    raise SystemExit(3)

run()
"""


def gsp_tf(*arguments):
    """Exit code of a command in this process."""
    with pytest.raises(SystemExit) as exit:
        cli.main([str(argument) for argument in arguments])
    return exit.value.code


@pytest.fixture
def suite(tmp_path):
    """Globals of the suite in a folder with a benchmark that works, one that fails, a helper."""
    shutil.copy(BENCHMARKS / "suite.py", tmp_path)
    for name, text in (("works", WORKS), ("fails", FAILS), ("helper", "A = 1\n")):
        (tmp_path / f"{name}.py").write_text(text)
    return runpy.run_path(str(tmp_path / "suite.py"))


def check_tables(name, path):
    text = path.read_text()
    assert f"## {name} (" in text and "TensorFlow" in text and "quick run" in text
    rows = re.findall(r"^\|.*[0-9.]+.*\|$", text, re.MULTILINE)
    assert text.count("### ") >= 1 and len(rows) >= 2 * text.count("### ")


def test_quick_run_of_a_benchmark_writes_its_tables(tmp_path):
    path = tmp_path / "RESULTS.md"
    done = processes.run(PROGRAM, BENCHMARKS / "k_center.py", "--quick", "--out", path)
    assert done.returncode == 0, done.output
    check_tables("k_center", path)


@pytest.mark.evidence
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is that of Linux")
@pytest.mark.parametrize("name", NAMES)
def test_quick_run_by_the_command_writes_its_tables(name, tmp_path):
    path = tmp_path / "RESULTS.md"
    assert gsp_tf("bench", name, "--quick", "--out", path) == 0
    check_tables(name, path)


def test_command_runs_the_suite(monkeypatch, capsys):
    asked = []

    def suite(path):
        assert path == str(BENCHMARKS / "suite.py")
        return {"bench": lambda *arguments: asked.append(arguments) or asked[0][0]}

    monkeypatch.setattr(bench.runpy, "run_path", suite)
    assert gsp_tf("bench", "heads", "--quick", "--out", "a.md") == 1
    assert "These benchmarks failed: heads." in capsys.readouterr().err
    assert [(list(names), *rest) for names, *rest in asked] == [(["heads"], True, "a.md")]


def test_every_benchmark_is_found():
    assert set(NAMES) >= {"ccp", "coded_residual", "gsp", "heads", "k_center", "losses", "memory"}
    assert set(NAMES) >= {"pipeline", "retrieval", "start_up", "training_step"}
    assert not {"machine", "measure", "results", "suite"} & set(NAMES)


def test_unknown_name_is_refused_with_those_that_there_are(capsys):
    assert gsp_tf("bench", "losses", "haeds") == 1
    error = capsys.readouterr().err
    assert "haeds;" in error and all(name in error for name in NAMES)


def test_without_a_source_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "gsp_tf" / "commands" / "bench.py"))
    assert gsp_tf("bench") == 1
    error = capsys.readouterr().err
    assert "source checkout" in error and str(tmp_path / "benchmarks") in error


@pytest.fixture
def gpus(monkeypatch):
    """List of the GPUs that TensorFlow says there are."""
    present = []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: present)
    return present


def test_others_run_after_one_has_failed(suite, tmp_path, gpus):
    assert suite["bench"]() == ["fails"]
    assert (tmp_path / "log").read_text() == f"None --out {tmp_path / 'RESULTS.md'}\n"


def test_runs_on_the_processor_and_on_the_gpu(suite, tmp_path, gpus):
    gpus.append("a GPU")
    assert suite["bench"](["works"], out="results.md") == []
    expected = ["-1 --out results.md", "None --out results.md"]
    assert (tmp_path / "log").read_text().splitlines() == expected


def test_quick_run_does_not_touch_the_results(suite, tmp_path, gpus):
    assert suite["bench"](["works"], quick=True) == []
    assert (tmp_path / "log").read_text() == "None --quick\n"
