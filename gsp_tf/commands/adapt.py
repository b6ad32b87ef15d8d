"""`gsp-tf adapt`: the first rung of `gsp-tf train`, a head on the features of a frozen network."""

from dataclasses import replace
from typing import Literal

from gsp_tf.commands._recipes import fitting
from gsp_tf.commands._results import exit_code
from gsp_tf.recipe import compose


def command(
    folder: str,
    *,
    head: Literal["linear", "mlp", "gsp"] = "linear",
    run: str | None = None,
    **fields,
) -> int:
    """Adapt a pretrained network to a folder of photographs, in minutes without a GPU.

    This is the first rung of the ladder of train. The network stays frozen: it computes the
    features of each photograph once, and a small head trains on them. The model of both is compared
    with the network alone, on classes that did not train it. Run the same command again to continue
    after a stop. After photographs were added, changed or removed it trains in another folder.

    Args:
        folder: Folder of photographs, one folder per class.
        head: linear and mlp map the mean of the features, and start as the network alone, linear
            with a computed map if that is better; gsp chooses among the features of each
            photograph.
        run: Run folder to create or continue; null is runs/NAME-HEAD-SEED, with a number for
            another recipe or other photographs.
    """
    from gsp_tf.runs import Ladder, choices_text, ladder_recipes, load_splits

    if "initial_run" in fields:
        raise ValueError(
            f"A frozen network starts from weights, not from initial_run={fields['initial_run']}: "
            "give --backbone.name and --backbone.weights RUN."
        )
    if head == "gsp":
        fields = {**fields, "pooling": {"name": "gsp", **fields.get("pooling", {})}}
    recipe, photographs, images = fitting(compose([], fields), folder, [], fields)
    if "name" not in fields:
        recipe = replace(recipe, name=f"{recipe.name}-{head}")
    recipe = ladder_recipes(recipe, fields, head)["head"]
    print(choices_text(recipe, photographs), end="\n\n", flush=True)
    path, splits = run or f"runs/{recipe.name}-{recipe.seed}", load_splits(recipe, images)
    ladder = Ladder.at(path, {"head": recipe}, splits, or_beside=run is None)
    ladder.climb().show()
    return exit_code([ladder])
