"""What a command is given: a run folder, or the name of a pretrained network."""

from pathlib import Path

from gsp_tf._typing import PathLike
from gsp_tf.runs.folder import RunFolder


def is_run(path: PathLike) -> bool:
    """Whether a folder is that of a run."""
    return RunFolder(path).recipe_path.is_file()


def require_run(path: PathLike) -> None:
    """Refuse a path that is not a run folder, without TensorFlow."""
    RunFolder(path).require(RunFolder(path).recipe_path)


def run_folder(run: str) -> str:
    """The run folder that is named, or that of a pretrained network, which is made if missing.

    Args:
        run: run folder, name of a network such as efficientnet_lite0, or its recipe.

    Raises:
        FileNotFoundError: if it is neither.

    Example:
        >>> run_folder("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    # TensorFlow is imported only for what can be a network: not for a mistyped path.
    path = Path(run)
    is_name = ":" in run or path.suffix in (".yaml", ".yml") or path.name == run
    if path.is_dir() or not is_name:
        require_run(path)
        return run
    from gsp_tf.runs.pretrained import pretrained_run

    return str(pretrained_run(run))
