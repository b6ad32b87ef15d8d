import re
import runpy
import shutil
from pathlib import Path

import processes
import pytest

from gsp_tf import cli

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


def test_command_runs_the_suite(monkeypatch, capsys):
    asked = []

    def suite(path):
        assert path == str(BENCHMARKS / "suite.py")
        return {"bench": lambda *arguments: asked.append(arguments) or asked[0][0]}

    monkeypatch.setattr(runpy, "run_path", suite)
    assert gsp_tf("bench", "heads", "--quick", "--out", "a.md") == 1
    assert "These benchmarks failed: heads." in capsys.readouterr().err
    assert [(list(names), *rest) for names, *rest in asked] == [(["heads"], True, "a.md")]
