"""Poolings under natural clutter, on photographs of Grocery Store.

`gsp-tf adapt` trains each head on the features of all 5,421 photographs (phones, shelves, hands and
other goods), from which 16 of 81 classes are left out. A head is a linear map after a pooling.
`--splits` are seeds of the division of the classes, and `--losses` names of losses. `--rungs` names
those of the ladder of `gsp-tf train`: head alone, or head and block, or head, block and network.
The table is experiments/results/evidence/clutter.csv: P@1 and MAP@R of the test classes, the MAP@R
of the validation classes, and both of the frozen network. What it has is not trained again.
"""

import subprocess
import sys
from pathlib import Path

import records
from sweep import HERE, SHOWN

from gsp_tf.recipe import compose, recipe_values
from gsp_tf.runs import Ladder, RunFolder, choose_recipe, ladder_recipes

OUT = HERE / "results/evidence/clutter.csv"
GSP, SHARP = {"pooling.name": "gsp"}, {"pooling.name": "gsp", "pooling.entropy_smoothing": 20}
TITLES = {"block": "last block", "network": "whole network"}
RATIO = "pooling.transport_ratio"
POOLINGS = {
    "gap": {},
    "gsp": GSP,
    "gsp, pooled start": {**GSP, "training.adapt_from": "pooled"},
    "gsp, μ 1": {**GSP, RATIO: 1},
    "gsp, μ 0.3, ε 20": {**SHARP, RATIO: 0.3},
    "gsp, μ 0.15, ε 20": {**SHARP, RATIO: 0.15},
    "generalized_mean": {"pooling.name": "generalized_mean"},
    "delf": {"pooling.name": "delf"},
    "max": {"pooling.name": "max"},
}


def options_of(pooling, loss, split, seed):
    """Values of a recipe's fields, by the names that `gsp-tf` gives them."""
    return {"seed": seed, "data.split_seed": split, "loss.name": loss, **pooling}


def trained(photographs, name, pooling, loss, split, seed):
    """Rows of quantity and value of the head, which is trained unless it has been."""
    path = Path("runs/clutter", f"{name}-{loss}-{split}-{seed}".replace(", ", "-"))
    options = {**options_of(pooling, loss, split, seed), "run": path}
    given = [text for field, value in options.items() for text in (f"--{field}", str(value))]
    head = "gsp" if pooling.get("pooling.name") == "gsp" else "linear"
    command = ["adapt", photographs, "--head", head, *given]
    subprocess.run([sys.executable, "-m", "gsp_tf", *command], check=True)
    return numbers(path)


def climbed(photographs, name, pooling, loss, split, seed, rungs):
    """Rows of quantity and value of the best model of a ladder with these rungs."""
    path = Path("runs/clutter", f"{name}-{loss}-{split}-{seed}-ladder".replace(", ", "-"))
    fields = {}
    for field, value in options_of(pooling, loss, split, seed).items():
        section, _, name = field.partition(".")
        fields |= {section: {**fields.get(section, {}), name: value} if name else value}
    recipe = compose([], fields, under=recipe_values(choose_recipe(photographs)))
    recipes = ladder_recipes(recipe, fields)
    Ladder(path, {rung: recipes[rung] for rung in rungs}).climb()
    return numbers(path / "rungs" / rungs[-1])


def numbers(path):
    metrics = RunFolder(path).metrics()
    for entry, prefix in (("test", ""), ("frozen", "frozen ")):
        for shown, key in SHOWN.items():
            yield f"{prefix}{shown}", 100 * metrics[entry][key]
    yield "validation MAP@R", 100 * metrics["best_val_map_at_r"]


def study(
    photographs: str = "data/grocery",
    losses: tuple[str, ...] = ("multi_similarity", "contrastive"),
    splits: tuple[int, ...] = (0, 1),
    seeds: tuple[int, ...] = (0, 1, 2),
    poolings: tuple[str, ...] = tuple(POOLINGS),
    rungs: tuple[str, ...] = ("head",),
):
    """Trains what is missing and adds its numbers to the table as they come."""
    of_rung = "" if rungs == ("head",) else f", {TITLES[rungs[-1]]}"
    for split in splits:
        for loss in losses:
            for seed in seeds:
                for name in poolings:
                    variant = f"{name}, {loss}, split {split}{of_rung}"
                    known = records.read(OUT) if OUT.exists() else {}
                    if seed in known.get(variant, {}).get("MAP@R", {}):
                        continue
                    work = photographs, name, POOLINGS[name], loss, split, seed
                    rows = climbed(*work, rungs) if of_rung else trained(*work)
                    records.add(OUT, [(variant, seed, *row) for row in rows])
