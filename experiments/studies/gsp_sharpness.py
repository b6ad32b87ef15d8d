"""Causes that move the pooling weights of GSP away from the average in short runs on photographs.

GAP and four settings of GSP: retrieval on the test classes, in percent, what each model gains in
MAP@R over GSP with the default settings of the same seed, and the standard deviation of weight /
average weight over all positions of all test images, which is 0 for the average.
"""

from sweep import HERE, opened, retrieval_rows, titled_sweep, weights_of

from gsp_tf.visual import weight_spread

DEFAULTS = "GSP, defaults"
SHARP, ADAPTED = "--pooling.entropy_smoothing=20", "--training.adapt_batches=4"
VARIANTS = {
    "GAP": ("sharpness_gap", ["--pooling.name=gap"]),
    DEFAULTS: ("sharpness_defaults", []),
    "ε 20": ("sharpness_eps", [SHARP]),
    "adapt_batches 4": ("sharpness_adapt", [ADAPTED]),
    "ε 20, adapt_batches 4": ("sharpness_both", [SHARP, ADAPTED]),
}


def study(
    recipe: tuple[str, ...] = (str(HERE / "gsp_sharpness.yaml"),),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
):
    """Trains what is missing and measures."""
    folders = titled_sweep(recipe, VARIANTS, seeds, runs, jobs)
    rows = retrieval_rows(folders)
    return [*rows, *gains(rows), *sharpness(folders)], {}


def gains(rows):
    """MAP@R of each run minus that of the default settings with the same seed, as rows."""
    scores = {(variant, seed): value for variant, seed, name, value in rows if name == "MAP@R"}
    return [
        (variant, seed, "MAP@R over defaults", value - scores[DEFAULTS, seed])
        for (variant, seed), value in scores.items()
        if variant != DEFAULTS
    ]


def sharpness(folders):
    """Rows of `weight_spread` over the test images."""
    for key, recipe, splits, embedder in opened(folders):
        _, weights = weights_of(embedder, recipe, splits.test)
        yield *key, "std of weight / average", weight_spread(weights[..., None])["std"]
