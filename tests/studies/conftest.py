"""Tests of the studies, which are started by name: pytest -m evidence tests/studies."""

import importlib
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("evidence")


@pytest.fixture(autouse=True)
def study(monkeypatch):
    """Imports a study by its name."""
    monkeypatch.syspath_prepend(EXPERIMENTS / "studies")
    monkeypatch.syspath_prepend(EXPERIMENTS)
    yield importlib.import_module
    for path in (*EXPERIMENTS.glob("*.py"), *(EXPERIMENTS / "studies").glob("*.py")):
        sys.modules.pop(path.stem, None)
