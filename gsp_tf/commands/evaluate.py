"""`gsp-tf evaluate`: evaluate a run again."""

from gsp_tf.commands._recipes import require_run


def command(run: str):
    """Evaluate a run again.

    This evaluates the best model and writes the report.

    Args:
        run: Run folder.
    """
    require_run(run)
    from gsp_tf.experiment import open_run

    opened = open_run(run)
    opened.evaluate()
    opened.show()
