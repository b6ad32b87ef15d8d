"""`gsp-tf bench`: speed and memory."""

import runpy
from pathlib import Path

from gsp_tf.commands.parsers import command_parser

HELP = "Measure speed and memory."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Measure speed and memory and write them to benchmarks/RESULTS.md, each "
        "benchmark in a process of its own; on the GPU too where there is one. Needs a source "
        "checkout."
    )
    arguments.add_argument(
        "names", type=str, nargs="*", help="Files of benchmarks/ without .py; all if none is named."
    )
    arguments.add_argument(
        "--quick",
        action="store_true",
        help="A trial with small sizes and few rounds, which writes nothing without --out.",
    )
    arguments.add_argument(
        "--out", type=str | None, help="Markdown file; null is benchmarks/RESULTS.md."
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    suite = Path(__file__).parents[2] / "benchmarks" / "suite.py"
    if not suite.exists():
        raise ValueError(
            f"bench runs from a source checkout, whose folder benchmarks is not there: {suite}"
        )
    failed = runpy.run_path(str(suite))["bench"](options.names, options.quick, options.out)
    if failed:
        raise ValueError(f"These benchmarks failed: {', '.join(failed)}.")
    return 0
