"""What commands print in the end."""

import sys

from gsp_tf.data.messages import counted


def show_run(folder, recipe, splits):
    """Print the results of a run and write its page.

    Args:
        folder: `RunFolder`.
        recipe: its recipe.
        splits: what `load_splits` gives for it, or `load_folds` for one of several models.

    Returns:
        list of the folders of its models.
    """
    from gsp_tf.experiment import Comparison, model_folders, report_runs
    from gsp_tf.experiment.table import print_results

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
        report_runs([folder.path], folder.report_path, recipe.name, splits)
    print(f"Report: {folder.report_path}")
    return models


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
