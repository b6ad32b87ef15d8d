"""`gsp-tf bench`: speed and memory."""

import runpy
from pathlib import Path


def command(names: list[str] = (), *, quick: bool = False, out: str | None = None):
    """Measure speed and memory.

    The results go to benchmarks/RESULTS.md. Each benchmark has a process of its own, and runs on
    the GPU too where there is one. This needs a source checkout.

    Args:
        names: Files of benchmarks/ without .py; all if none is named.
        quick: A trial with small sizes and few rounds, which writes nothing without --out.
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
