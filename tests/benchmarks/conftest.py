import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def module(monkeypatch):
    """Function that imports a file of the benchmarks by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for path in BENCHMARKS.glob("*.py"):
        sys.modules.pop(path.stem, None)
