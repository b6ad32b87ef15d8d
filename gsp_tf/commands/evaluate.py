"""`gsp-tf evaluate`: a run evaluated again."""

from gsp_tf.commands.parsers import command_parser

HELP = "Evaluate a run again."


def parser():
    """Its arguments."""
    arguments = command_parser("Evaluate the best model of a run again and write its report.")
    arguments.add_argument("run", type=str, help="Run folder.")
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    from gsp_tf.experiment import open_run

    run = open_run(options.run)
    run.evaluate()
    run.show()
    return 0
