"""`gsp-tf demo`: GAP and GSP in a few minutes."""

from gsp_tf._numbers import Count
from gsp_tf.commands._results import exit_code


def command(*, runs: str = "runs", epochs: Count | None = None, data: str | None = None) -> int:
    """Compare GAP and GSP in a few minutes.

    Both train on collages of letters, or on photographs of yours, and are compared on unseen
    classes.

    Args:
        runs: Folder for the demo's run folders.
        epochs: Epochs of each run; null uses those of the recipe, or 5 for photographs.
        data: Folder of photographs, one folder per class. The network is then efficientnet_lite0
            with ImageNet weights from the extra [pretrained], which is also evaluated untrained.
    """
    from gsp_tf.runs import print_results, run_demo

    report, trained = run_demo(runs, epochs, data)
    print_results([run.folder for run in trained])
    print(f"Report: {report}")
    if trained[-1].status == "interrupted":
        print(f"To continue this run: gsp-tf train --resume {trained[-1].folder.path}")
    return exit_code(trained)
