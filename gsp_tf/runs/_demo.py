"""The demo: GAP against GSP on collages of letters, or on photographs of yours."""

from dataclasses import replace
from datetime import datetime
from importlib import resources
from pathlib import Path

from gsp_tf import backbones
from gsp_tf._typing import PathLike
from gsp_tf.recipe import ClassRecipe, DataRecipe, EmbeddingRecipe, ZeroShotRecipe, load_recipe
from gsp_tf.runs.choices import choices_text, choose_recipe
from gsp_tf.runs.data import load_images, load_splits
from gsp_tf.runs.pretrained import frozen_recipe
from gsp_tf.runs.run import Run, report_runs

_GAP = ["--name", "GAP", "--pooling.name", "gap", "--zero_shot.weight", "0"]
_NETWORK = "efficientnet_lite0"
_EPOCHS = 5
_DIM = 512


def run_demo(
    runs: PathLike, epochs: int | None = None, data: PathLike | None = None
) -> tuple[Path, list[Run]]:
    """Train with GAP and with GSP, and write one report about both.

    Without `data`, both train by the demo's recipe on collages of letters. With a folder of
    photographs, both train EfficientNet-Lite0 from its ImageNet weights, and the first of three
    runs is that network before any training: the mean of its last map. Gives the path of the report
    and the runs, without those after an interrupted one.
    """
    folder = Path(runs) / f"demo-{datetime.now():%Y%m%d-%H%M%S}"
    if data is None:
        recipes, trained = _of_letters(epochs), []
        title = "GAP and GSP on collages of unseen letters"
    else:
        recipes, splits = _of_photographs(data, epochs)
        print(f"Evaluating {_NETWORK} as it is", flush=True)
        untrained = Run(folder / "untrained", replace(frozen_recipe(recipes[0]), name="untrained"))
        untrained.splits, trained = splits, [untrained.train()]
        title = f"GAP and GSP on unseen classes of {recipes[1].data.path}"
    for recipe in recipes:
        print(f"Training {recipe.name}", flush=True)
        run = Run(folder / recipe.name.lower(), recipe)
        if trained:
            run.splits = trained[0].splits
        trained.append(run.train())
        if run.status == "interrupted":
            break
    return report_runs(trained, folder / "report.html", title), trained


def _of_letters(epochs):
    """The demo's recipe with GAP and with GSP."""
    length = [] if epochs is None else ["--training.epochs", str(epochs)]
    with resources.as_file(resources.files("gsp_tf") / "recipes" / "demo.yaml") as path:
        return [load_recipe(path, [*_GAP, *length]), load_recipe(path, length)]


def _of_photographs(path, epochs):
    """Recipes for a folder of photographs with GAP and with GSP, and its images."""
    source = backbones.weights_source(_NETWORK)
    if not source.is_local:
        raise ImportError(f"The demo on photographs takes the weights {source.text}.")
    images = load_images(DataRecipe.of_photographs(path))
    chosen = choose_recipe(path, images, _NETWORK, "imagenet")
    training = replace(chosen.training, epochs=_EPOCHS if epochs is None else epochs, patience=None)
    gap = replace(
        chosen,
        name="GAP",
        embedding=EmbeddingRecipe(_DIM),
        pooling=ClassRecipe("gap"),
        training=training,
    )
    gsp = replace(
        gap,
        name="GSP",
        pooling=ClassRecipe("gsp"),
        zero_shot=ZeroShotRecipe(0.1),
        training=replace(training, adapt_batches=4),
    )
    print(choices_text(gsp, images), end="\n\n", flush=True)
    return [gap, gsp], load_splits(gsp, images)
