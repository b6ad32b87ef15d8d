"""`gsp-tf report`: runs in one table."""

import warnings


def command(runs: list[str], *, out: str = "tables"):
    """Compare runs in one table.

    The table has methods as rows and data sets as columns, in Markdown and CSV. Runs with
    the same name and different seeds become a mean and a standard deviation. Folders without
    results are left out with a note; interrupted runs are marked.

    Args:
        runs: Run folders.
        out: Folder for table.md and table.csv.
    """
    from gsp_tf.runs import Comparison

    comparison = Comparison(runs, skip=True)
    for reason in comparison.skipped:
        warnings.warn(f"left out: {reason}", stacklevel=1)
    print(comparison.markdown())
    for path in comparison.write(out):
        print(path)
