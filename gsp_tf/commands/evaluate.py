"""`gsp-tf evaluate`: a run evaluated again."""

from gsp_tf.commands._recipes import require_run


def command(run: str):
    """Evaluate a run again.

    The best model is evaluated, and the report is written.

    Args:
        run: Run folder.
    """
    require_run(run)
    from gsp_tf.experiment import open_run

    opened = open_run(run)
    opened.evaluate()
    opened.show()
