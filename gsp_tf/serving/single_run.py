"""The run folder of one model."""

from gsp_tf.experiment import RunFolder, model_folders


def single_run(path):
    """Open a run folder that holds one finished model.

    Args:
        path: run folder.

    Returns:
        `RunFolder`.

    Raises:
        FileNotFoundError: if the folder is not a run folder, or has no model yet.
        ValueError: if it holds the models of several folds.

    Example:
        >>> single_run("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    folder = RunFolder(path)
    folder.require(folder.recipe_path)
    if folder.recipe().protocol.is_ensemble:
        models = [str(model.path) for repeats in model_folders(folder) for model in repeats]
        raise ValueError(
            f"{path} holds the models of several folds; name the run folder of one of them: "
            f"{', '.join(models)}."
        )
    return RunFolder.open(path)
