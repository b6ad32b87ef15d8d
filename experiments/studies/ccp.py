"""How CCP depends on its parameters (thesis 2022, Fig. 3.6, 3.7b and 3.8).

python experiments/studies/ccp.py [--runs FOLDER] [--jobs 2]

Sweeps over omniglot_ccp.yaml (C2): the evaluations without progress that end a problem, and so the
steps per projection, with three seeds; the batch size, with CCP and without, with three; and the
size of the pool by the proxies of a class, with one.
"""

from pathlib import Path

import numpy as np
from jsonargparse import auto_cli
from pictures import save
from records import read, write
from sweep import retrieval_rows, sweep

from gsp_tf.visual.style import INK, RUN_COLORS, RUN_MARKERS, transparent_figure

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "experiments/omniglot_ccp.yaml"
TRAINERS = {"C2": [], "C2-CCP": ["--trainer=ccp"]}
OPTIONS = {
    "patience": "ccp.patience",
    "classes": "data.classes_per_batch",
    "pool": "ccp.pool_size",
    "proxies": "ccp.proxies_per_class",
}
CENTRE = {"patience": 6, "classes": 8, "pool": 12, "proxies": 8}
PATIENCES = (2, 6, 10)
CLASSES = (4, 8, 16)
POOLS = (8, 12, 16)
PROXIES = (1, 4, 8)
IMAGES_PER_CLASS = 4
STEPS = "steps per projection"


def name_of(trainer="C2-CCP", **values):
    """Name of a variant: what differs from the recipe, so that the sweeps share its own values.

    Args:
        trainer: key of `TRAINERS`.
        values: integers for names of `OPTIONS`.
    """
    differing = [f"{name}-{value}" for name, value in values.items() if value != CENTRE[name]]
    return "-".join([trainer, *differing])


def options_of(trainer="C2-CCP", **values):
    """Options of a variant, arguments as for `name_of`."""
    return TRAINERS[trainer] + [f"--{OPTIONS[name]}={value}" for name, value in values.items()]


def several_seeds():
    """Variants of the steps per projection, and of the batch size with and without CCP."""
    points = [{"patience": value} for value in PATIENCES]
    points += [{"trainer": name, "classes": value} for name in TRAINERS for value in CLASSES]
    return {name_of(**point): options_of(**point) for point in points}


def one_seed():
    """Variants of the size of the pool and the proxies of a class that are in no other sweep."""
    points = [{"pool": pool, "proxies": proxies} for pool in POOLS for proxies in PROXIES]
    return {
        name_of(**point): options_of(**point) for point in points if name_of(**point) != "C2-CCP"
    }


def projection_rows(folders):
    """Rows of `records.write`: problems of each run and steps of each of them on average.

    Args:
        folders: as `sweep` returns; runs without CCP have none.
    """
    for (variant, seed), folder in folders.items():
        steps = [problem["steps"] for problem in folder.metrics().get("projections", ())]
        if not steps:
            continue
        yield variant, seed, "projections", len(steps)
        yield variant, seed, STEPS, np.mean(steps)


def picture(values):
    """The three sweeps side by side.

    Args:
        values: as `records.read` returns.

    Returns:
        matplotlib Figure.
    """

    def points(variant, quantity="MAP@R"):
        return list(values[variant][quantity].values())

    figure = transparent_figure(12, 3.4)
    left, middle, right = figure.subplots(1, 3)
    for position, value in enumerate(PATIENCES):
        variant = name_of(patience=value)
        style = dict(color=RUN_COLORS[position], marker=RUN_MARKERS[position], linestyle="")
        left.plot(points(variant, STEPS), points(variant), label=f"patience {value}", **style)
    left.legend(frameon=False)
    left.set(title="steps per projection", xlabel=STEPS, ylabel="MAP@R (%)")
    for position, trainer in enumerate(TRAINERS):
        style = dict(color=RUN_COLORS[position], marker=RUN_MARKERS[position])
        of_sizes = [points(name_of(trainer, classes=value)) for value in CLASSES]
        sizes = [IMAGES_PER_CLASS * value for value in CLASSES]
        middle.plot(sizes, [np.mean(of_size) for of_size in of_sizes], label=trainer, **style)
        for size, of_size in zip(sizes, of_sizes, strict=True):
            middle.plot([size] * len(of_size), of_size, linestyle="", alpha=0.4, **style)
    middle.legend(frameon=False)
    middle.set_xscale("log", base=2)
    middle.set_xticks(sizes, sizes)
    middle.set(title="batch size", xlabel="images in a batch", ylabel="MAP@R (%)")
    for position, proxies in enumerate(PROXIES):
        style = dict(color=RUN_COLORS[position], marker=RUN_MARKERS[position])
        first = [points(name_of(pool=pool, proxies=proxies))[0] for pool in POOLS]
        label = f"{proxies} {'proxy' if proxies == 1 else 'proxies'}"
        right.plot(POOLS, first, label=label, **style)
    right.legend(frameon=False)
    right.set(title="pool and proxies", xlabel="images of a class in the pool", ylabel="MAP@R (%)")
    right.set_xticks(POOLS)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK)
    figure.tight_layout()
    return figure


def main(
    runs: str = "runs",
    jobs: int = 1,
    seeds: tuple[int, ...] = (0, 1, 2),
    recipe: tuple[str, ...] = (str(RECIPE),),
    results: str = str(ROOT / "experiments/results/studies/ccp.csv"),
    figure: str = str(ROOT / "docs/figures/ccp.png"),
):
    """Trains what is missing, writes the numbers and draws them.

    Args:
        runs: folder of the run folders.
        jobs: runs at the same time.
        seeds: seeds of the first two sweeps; the pool and the proxies take the first.
        recipe: recipe files to vary.
        results: CSV file to write.
        figure: picture to write.
    """
    found = sweep(recipe, several_seeds(), seeds, runs, jobs)
    found |= sweep(recipe, one_seed(), seeds[:1], runs, jobs)
    write(results, [*retrieval_rows(found), *projection_rows(found)])
    save(picture(read(results)), figure)


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
