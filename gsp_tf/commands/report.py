"""`gsp-tf report`: runs in one table."""

import warnings

from gsp_tf.commands.parsers import command_parser

HELP = "Compare runs in one table."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Compare runs in one table, methods by data sets, as Markdown, CSV and LaTeX. "
        "Runs of one name that differ in their seed become a mean and a standard deviation. "
        "Folders without results are left out with a note; interrupted runs are marked."
    )
    arguments.add_argument("runs", type=str, nargs="+", help="Run folders.")
    arguments.add_argument(
        "--out", type=str, default="tables", help="Folder for table.md, table.csv and table.tex."
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    from gsp_tf.experiment import Comparison

    comparison = Comparison(options.runs, skip=True)
    for reason in comparison.skipped:
        warnings.warn(f"left out: {reason}", stacklevel=1)
    print(comparison.markdown())
    for path in comparison.write(options.out):
        print(path)
    return 0
