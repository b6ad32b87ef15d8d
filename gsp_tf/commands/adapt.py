"""`gsp-tf adapt`: train a head on the features of a pretrained network."""

import functools
import itertools
from pathlib import Path
from typing import Literal

from gsp_tf.commands._recipes import fitting
from gsp_tf.commands.results import exit_code


def command(
    folder: str,
    *,
    head: Literal["linear", "mlp", "gsp"] = "linear",
    run: str | None = None,
    **fields,
) -> int:
    """Adapt a pretrained network to a folder of photographs, in minutes without a GPU.

    The network stays frozen: it computes the features of each photograph once, and a small head
    trains on them. The model of both is compared with the network alone, on classes that did not
    train it. Run the same command again to continue after a stop.

    Args:
        folder: Folder of photographs, one folder per class.
        head: linear and mlp map the mean of the features, and start as the network alone; gsp
            chooses among the features of each photograph.
        run: Run folder to create or continue; null is runs/NAME-HEAD-SEED, with a number for
            another recipe.
    """
    from gsp_tf.experiment import Run, choose_adaptation, load_splits
    from gsp_tf.recipe import compose

    choose = functools.partial(choose_adaptation, head=head)
    recipe, images = fitting(compose([], fields), folder, [], fields, choose)
    path = _place(run, recipe)
    is_new = not (path / "recipe.yaml").is_file()
    adapted = Run(path, recipe if is_new else None)
    if images is not None:
        adapted.splits = load_splits(recipe, images)
    adapted = adapted.train() if is_new else adapted.resume()
    adapted.show()
    return exit_code([adapted])


def _place(run, recipe):
    """The run folder of a recipe: the given one, or the first that has this recipe or is free."""
    from gsp_tf.experiment import RunFolder

    first = f"runs/{recipe.name}-{recipe.seed}"
    numbered = itertools.chain([first], (f"{first}-{n}" for n in itertools.count(2)))
    for path in map(Path, [run] if run else numbered):
        folder = RunFolder(path)
        if not folder.recipe_path.is_file():
            folder.refuse_existing()
            return path
        if folder.recipe() == recipe:
            return path
    raise FileExistsError(f"{run} is a run of another recipe. Choose another folder (--run NEW).")
