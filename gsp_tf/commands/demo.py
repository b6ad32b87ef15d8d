"""`gsp-tf demo`: GAP and GSP in a few minutes."""

from gsp_tf.commands.parsers import command_parser
from gsp_tf.commands.results import exit_code

HELP = "Compare GAP and GSP in a few minutes."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Train GAP and GSP on collages of letters and compare them on unseen letters."
    )
    arguments.add_argument(
        "--runs", type=str, default="runs", help="Folder for the demo's run folders."
    )
    arguments.add_argument(
        "--epochs", type=int | None, help="Epochs of each run; null as in the recipe."
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    from gsp_tf.experiment import print_results, run_demo

    report, runs = run_demo(options.runs, options.epochs)
    print_results(runs)
    print(f"Report: {report}")
    return exit_code(runs)
