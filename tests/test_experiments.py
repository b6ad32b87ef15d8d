import runpy
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.mark.parametrize("name", ["omniglot_collage", "random_background", "demo"])
def test_the_tables_are_what_the_results_say(name):
    summarize = runpy.run_path(str(EXPERIMENTS / "summarize.py"))["summarize"]
    table = summarize(sorted((EXPERIMENTS / "results").glob(f"{name}_*")))
    assert len(table.splitlines()) == 4
    assert table in (EXPERIMENTS / "README.md").read_text("utf-8")
