"""Causes that move the pooling weights of GSP away from the average in short runs on photographs.

python experiments/studies/gsp_sharpness.py [--runs FOLDER] [--seeds "[0, 1, 2]"] [--jobs 2]

Trains GAP and four settings of GSP with every seed, or takes the runs that are in the folder.
Writes retrieval on the test classes, in percent, what each model gains in MAP@R over GSP with the
default settings of the same seed, and the standard deviation of weight / average weight over all
positions of all test images, which is 0 for the average.
"""

from pathlib import Path

import records
from collage import weights_of
from jsonargparse import auto_cli
from sweep import retrieval_rows, sweep, titled

from gsp_tf.runs import load_splits
from gsp_tf.visual import weight_spread

ROOT = Path(__file__).parents[2]
DEFAULTS = "GSP, defaults"
VARIANTS = {
    "GAP": ("sharpness_gap", ["--pooling.name=gap"]),
    DEFAULTS: ("sharpness_defaults", []),
    "ε 20": ("sharpness_eps", ["--pooling.entropy_smoothing=20"]),
    "adapt_batches 4": ("sharpness_adapt", ["--training.adapt_batches=4"]),
    "ε 20, adapt_batches 4": (
        "sharpness_both",
        ["--pooling.entropy_smoothing=20", "--training.adapt_batches=4"],
    ),
}


def gains(rows):
    """MAP@R of each run minus that of the default settings with the same seed, as rows.

    Args:
        rows: `(variant, seed, quantity, value)` as `retrieval_rows` gives them.
    """
    scores = {(variant, seed): value for variant, seed, name, value in rows if name == "MAP@R"}
    return [
        (variant, seed, "MAP@R over defaults", value - scores[DEFAULTS, seed])
        for (variant, seed), value in scores.items()
        if variant != DEFAULTS
    ]


def sharpness_rows(folders):
    """Rows of `records.write`: `weight_spread` over the test images.

    Args:
        folders: dict from `(variant, seed)` to `RunFolder`.
    """
    images = load_splits(next(iter(folders.values())).recipe()).test
    for (variant, seed), folder in folders.items():
        embedder = folder.learner(compile=False).embedder
        _, weights = weights_of(embedder, folder.recipe(), images)
        yield variant, seed, "std of weight / average", weight_spread(weights[..., None])["std"]


def main(
    recipe: tuple[str, ...] = (str(ROOT / "experiments/gsp_sharpness.yaml"),),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
    out: str = str(ROOT / "experiments/results/studies/gsp_sharpness.csv"),
):
    """Trains what is missing and measures.

    Args:
        recipe: YAML files of the photographs.
        runs: folder of the run folders `sharpness_NAME-SEED`.
        seeds: seeds of the runs.
        jobs: runs at the same time.
        out: CSV file of the numbers.
    """
    folders = titled(sweep(recipe, dict(VARIANTS.values()), seeds, runs, jobs), VARIANTS)
    rows = retrieval_rows(folders)
    records.write(out, [*rows, *gains(rows), *sharpness_rows(folders)])
    print(records.table(out))


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
