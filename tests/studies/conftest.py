import importlib
import sys
from pathlib import Path

import pytest

STUDIES = Path(__file__).parent.parent.parent / "experiments/studies"


@pytest.fixture(autouse=True)
def scripts_import_each_other(monkeypatch):
    monkeypatch.syspath_prepend(STUDIES)
    yield
    for path in STUDIES.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def script(request):
    """The study that the test file is named after."""
    return importlib.import_module(request.path.stem.removeprefix("test_"))
