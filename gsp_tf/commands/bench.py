"""`gsp-tf bench`: speed and memory."""

import runpy
from pathlib import Path


def bench(names: list[str] = (), *, quick: bool = False, out: str | None = None):
    """Measure speed and memory.

    The results go to benchmarks/RESULTS.md. Each benchmark runs in its own process, and also on the
    GPU if there is one. This needs a source checkout.

    Args:
        names: Files of benchmarks/ without .py; all by default.
        quick: Run a trial with small sizes and few rounds, which writes nothing without --out.
        out: Markdown file; null is benchmarks/RESULTS.md.
    """
    suite = Path(__file__).parents[2] / "benchmarks" / "suite.py"
    if not suite.exists():
        raise ValueError(
            f"bench runs from a source checkout, whose folder benchmarks is not there: {suite}"
        )
    failed = runpy.run_path(str(suite))["bench"](names, quick, out)
    if failed:
        raise ValueError(f"These benchmarks failed: {', '.join(failed)}.")
