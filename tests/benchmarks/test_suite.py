import re
import runpy
from pathlib import Path

import processes
from digit_runs import run_command

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_quick_run_of_a_benchmark_writes_its_tables(tmp_path):
    path = tmp_path / "RESULTS.md"
    processes.run_file(BENCHMARKS / "k_center.py", "--quick", "--out", path)
    text = path.read_text()
    assert "## k_center (" in text and "TensorFlow" in text and "quick run" in text
    rows = re.findall(r"^\|.*[0-9.]+.*\|$", text, re.MULTILINE)
    assert text.count("### ") >= 1 and len(rows) >= 2 * text.count("### ")


def test_command_runs_the_suite(monkeypatch, capsys):
    asked = []

    def suite(path):
        assert path == str(BENCHMARKS / "suite.py")
        return {"bench": lambda *arguments: asked.append(arguments) or asked[0][0]}

    monkeypatch.setattr(runpy, "run_path", suite)
    assert run_command("bench", "heads", "--quick", "--out", "a.md") == 1
    assert "These benchmarks failed: heads." in capsys.readouterr().err
    assert [(list(names), *rest) for names, *rest in asked] == [(["heads"], True, "a.md")]
