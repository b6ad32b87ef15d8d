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
CCP = ["--trainer=ccp"]
PATIENCES = (2, 4, 6, 10)
CLASSES = (4, 8, 16, 32)
TRAINERS = {"C2": [], "C2-CCP": CCP}
POOLS = (4, 8, 12, 16)
PROXIES = (1, 4, 8)
STEPS = "steps per projection"


def patience_variants():
    """Variants of the steps per projection."""
    return {f"patience-{value}": [*CCP, f"--ccp.patience={value}"] for value in PATIENCES}


def batch_variants():
    """Variants of the batch size, with and without CCP."""
    return {
        f"{name}-classes-{value}": [*options, f"--data.classes_per_batch={value}"]
        for name, options in TRAINERS.items()
        for value in CLASSES
    }


def pool_variants():
    """Variants of the size of the pool and the proxies of a class."""
    return {
        f"pool-{pool}-proxies-{proxies}": [
            *CCP,
            f"--ccp.pool_size={pool}",
            f"--ccp.proxies_per_class={proxies}",
        ]
        for pool in POOLS
        for proxies in PROXIES
    }


def projection_rows(results):
    """Rows of `records.write`: problems of each run and steps of each of them on average.

    Args:
        results: as `sweep` returns, of runs with CCP.
    """
    for (variant, seed), metrics in results.items():
        steps = [problem["steps"] for problem in metrics["projections"]]
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
    for variant in patience_variants():
        left.plot(points(variant, STEPS), points(variant), "o", label=variant.replace("-", " "))
    left.legend(frameon=False)
    left.set(title="steps per projection", xlabel=STEPS, ylabel="MAP@R (%)")
    for position, name in enumerate(TRAINERS):
        style = dict(color=RUN_COLORS[position], marker=RUN_MARKERS[position])
        of_sizes = [points(f"{name}-classes-{value}") for value in CLASSES]
        sizes = [4 * value for value in CLASSES]
        middle.plot(sizes, [np.mean(of_size) for of_size in of_sizes], label=name, **style)
        for size, of_size in zip(sizes, of_sizes, strict=True):
            middle.plot([size] * len(of_size), of_size, linestyle="", alpha=0.4, **style)
    middle.legend(frameon=False)
    middle.set_xscale("log", base=2)
    middle.set(title="batch size", xlabel="images in a batch", ylabel="MAP@R (%)")
    for position, proxies in enumerate(PROXIES):
        style = dict(color=RUN_COLORS[position], marker=RUN_MARKERS[position])
        of_pools = [np.mean(points(f"pool-{pool}-proxies-{proxies}")) for pool in POOLS]
        right.plot(POOLS, of_pools, label=f"{proxies} proxies", **style)
    right.legend(frameon=False)
    right.set(title="pool and proxies", xlabel="images of a class in the pool", ylabel="MAP@R (%)")
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK)
    figure.tight_layout()
    return figure


def main(
    runs: str = "runs",
    jobs: int = 1,
    seeds: tuple[int, ...] = (0, 1, 2),
    recipe: str = str(RECIPE),
    results: str = str(ROOT / "experiments/results/studies/ccp.csv"),
    figure: str = str(ROOT / "docs/figures/ccp.png"),
):
    """Trains what is missing, writes the numbers and draws them.

    Args:
        runs: folder of the run folders.
        jobs: runs at the same time.
        seeds: seeds of the first two sweeps; the pool and the proxies take the first.
        recipe: recipe to vary.
        results: CSV file to write.
        figure: picture to write.
    """
    of_patience = sweep(recipe, patience_variants(), seeds, runs, jobs)
    of_batch = sweep(recipe, batch_variants(), seeds, runs, jobs)
    of_pool = sweep(recipe, pool_variants(), seeds[:1], runs, jobs)
    rows = retrieval_rows({**of_patience, **of_batch, **of_pool})
    write(results, [*rows, *projection_rows(of_patience)])
    save(picture(read(results)), figure)


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
