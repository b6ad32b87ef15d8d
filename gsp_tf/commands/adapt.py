"""`gsp-tf adapt`: train a head on the features of a pretrained network."""

import functools
import itertools
import warnings
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

    The network stays frozen: it computes the features of each training photograph once, and a small
    head trains on them. The model of both is compared with the network alone, on classes that did
    not train it. Run the same command again to continue after a stop. After photographs were added,
    changed or removed it trains anew, in another folder.

    Args:
        folder: Folder of photographs, one folder per class.
        head: linear and mlp map the mean of the features, and start as the network alone; gsp
            chooses among the features of each photograph.
        run: Run folder to create or continue; null is runs/NAME-HEAD-SEED, with a number for
            another recipe or other photographs.
    """
    from gsp_tf.experiment import Run, choose_adaptation, load_splits
    from gsp_tf.recipe import compose

    choose = functools.partial(choose_adaptation, head=head)
    recipe, images = fitting(compose([], fields), folder, [], fields, choose)
    splits = load_splits(recipe, images)
    path = _place(run, recipe, splits)
    is_new = not (path / "recipe.yaml").is_file()
    adapted = Run(path, recipe if is_new else None)
    adapted.splits = splits
    adapted = adapted.train() if is_new else adapted.resume()
    adapted.show()
    return exit_code([adapted])


def _place(run, recipe, splits):
    """The run folder of a recipe and its images: the given one, or the first of them or free."""
    from gsp_tf.experiment import RunFolder

    first, images, others = f"runs/{recipe.name}-{recipe.seed}", splits.digest(), []
    numbered = itertools.chain([first], (f"{first}-{n}" for n in itertools.count(2)))
    for path in map(Path, [run] if run else numbered):
        folder = RunFolder(path)
        if not folder.recipe_path.is_file():
            folder.refuse_existing()
            if others:
                warnings.warn(
                    f"The photographs in {recipe.data.path} have changed since {others[-1]} began, "
                    f"so this run goes to {path}.",
                    stacklevel=2,
                )
            return path
        if folder.recipe() == recipe:
            # None of a run that was stopped before it noted its images, or notes none.
            if folder.metrics().get("images") in (None, images):
                return path
            others.append(path)
    raise FileExistsError(
        f"{run} is a run of another recipe or of other photographs. Choose another folder "
        "(--run NEW)."
    )
