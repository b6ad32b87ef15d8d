import runpy
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.mark.parametrize(
    ("name", "rows"),
    [("omniglot_collage", 2), ("random_background", 2), ("demo", 2), ("omniglot_ccp", 12)],
)
def test_the_tables_are_what_the_results_say(name, rows):
    summarize = runpy.run_path(str(EXPERIMENTS / "summarize.py"))["summarize"]
    table = summarize(sorted((EXPERIMENTS / "results").glob(f"{name}_*")))
    assert len(table.splitlines()) == 2 + rows
    assert table in (EXPERIMENTS / "README.md").read_text("utf-8")
