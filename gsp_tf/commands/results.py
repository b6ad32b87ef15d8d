"""What commands print in the end."""

import sys

from gsp_tf._console import counted


def show_run(folder, recipe, splits):
    """Print the results of a run and write its page.

    Args:
        folder: `RunFolder`.
        recipe: its recipe.
        splits: what `load_splits` gives for it, or `load_folds` for one of several models.

    Returns:
        list of the folders of its models.
    """
    from gsp_tf.experiment import Comparison, model_folders, print_results, report_runs

    if recipe.protocol.is_ensemble:
        if "ensemble" not in folder.metrics():
            return [folder]
        models = [model for repeats in model_folders(folder) for model in repeats]
        print_results([model.path for model in models])
        print(Comparison([folder.path]).markdown())
        shown = [repeats[0].path for repeats in model_folders(folder)]
        report_runs(shown, folder.report_path, recipe.name, splits[0])
    else:
        models = [folder]
        print_results([folder.path])
        _print_weights(folder.metrics().get("pooling_weights"))
        report_runs([folder.path], folder.report_path, recipe.name, splits)
    print(f"Report: {folder.report_path}")
    return models


def _print_weights(spread):
    """Print how far pooling weights are from the average; `None` if there are none."""
    from gsp_tf.visual import NEAR_AVERAGE

    if spread is None:
        return
    print(
        f"Pooling weights: {spread['min']:.2f} to {spread['max']:.2f} times the average, standard "
        f"deviation {spread['std']:.3f}"
    )
    if spread["std"] < NEAR_AVERAGE:
        print("This is close to average pooling; docs/gsp.md says what sharpens the weights.")


def exit_code(folders):
    """The exit code of a training.

    Args:
        folders: list of `RunFolder`.

    Returns:
        1 if the loss was not finite, which is printed, 130 if it was interrupted, else 0.
    """
    statuses = {folder.metrics()["status"] for folder in folders}
    if "diverged" in statuses:
        print(
            "gsp-tf: error: the loss was not finite; the run holds the best model until then. "
            "Try a smaller --training.learning_rate.",
            file=sys.stderr,
        )
        return 1
    return 130 if "interrupted" in statuses else 0


def show_embeddings(folder):
    """Print what a folder of embeddings holds.

    Args:
        folder: `EmbeddingsFolder` that is complete.
    """
    metadata = folder.metadata()
    count, dim = metadata["images"]["embedded"], metadata["dim"]
    print(f"{folder.path}: {counted(count, 'image')} of dimension {dim}")
