"""`gsp-tf demo`: GAP and GSP in a few minutes."""

from gsp_tf.commands.results import exit_code


def command(*, runs: str = "runs", epochs: int | None = None) -> int:
    """Compare GAP and GSP in a few minutes.

    Both train on collages of letters and are compared on unseen letters.

    Args:
        runs: Folder for the demo's run folders.
        epochs: Epochs of each run; null uses those of the recipe.
    """
    from gsp_tf.experiment import print_results, run_demo

    report, trained = run_demo(runs, epochs)
    print_results(trained)
    print(f"Report: {report}")
    return exit_code(trained)
