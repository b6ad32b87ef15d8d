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
