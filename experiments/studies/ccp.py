"""How CCP depends on its parameters (thesis 2022, Fig. 3.3 and 3.5 to 3.8, Table 3.3).

python experiments/studies/ccp.py [--runs FOLDER] [--jobs 2]

Sweeps with C2 and three seeds over a small form of omniglot_ccp.yaml, evaluated every 25 steps with
a patience of 3, the thesis' values: the weight λ of the projection, the pool by the proxies of a
class, the batch size with CCP and without, and a single problem instead of a series. The
steps of each problem are kept for every run with CCP, and the covering radius of validation classes
for C2, the single problem and CCP.
"""

from pathlib import Path

import numpy as np
from jsonargparse import auto_cli
from pictures import save
from records import read, write
from sweep import retrieval_rows, sweep

from gsp_tf.evaluation import covering_radius_curve
from gsp_tf.runs import evaluation_batches, load_splits
from gsp_tf.training import embed
from gsp_tf.visual import INK, RUN_COLORS, RUN_MARKERS, transparent_figure

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "experiments/omniglot_ccp.yaml"
STEPS_PER_EPOCH = 25
EPOCHS = 36
SMALL = [
    "--data.image_size=14",
    f"--training.epochs={EPOCHS}",
    f"--training.steps_per_epoch={STEPS_PER_EPOCH}",
    "--training.learning_rate=0.003",
]
TRAINERS = {
    "C2": [],
    "C2-single": ["--trainer=ccp", "--ccp.max_projections=1", f"--ccp.patience={EPOCHS}"],
    "C2-CCP": ["--trainer=ccp", "--ccp.patience=3"],
}
OPTIONS = {
    "classes": "data.classes_per_batch",
    "pool": "ccp.pool_size",
    "proxies": "ccp.proxies_per_class",
    "weight": "ccp.projection_weight",
}
CENTRE = {"classes": 8, "pool": 12, "proxies": 8, "weight": 2e-4}
CLASSES = (4, 8, 32)
PROXIES = (1, 8)
POOLS = (1, 12)  # 1 is a random choice, for any number of proxies
WEIGHTS = (0.0, 2e-4, 1e-2, 1.0)
IMAGES_PER_CLASS = 4
GEOMETRY = ("C2", "C2-single", "C2-CCP")


def name_of(trainer="C2-CCP", **values):
    """Name of a variant: what differs from `CENTRE`, so that the sweeps share its own values.

    Args:
        trainer: key of `TRAINERS`.
        values: numbers for names of `OPTIONS`.
    """
    differing = [f"{name}-{value:g}" for name, value in values.items() if value != CENTRE[name]]
    return "-".join([trainer, *differing])


def options_of(trainer="C2-CCP", **values):
    """Options of a variant, arguments as for `name_of`."""
    given = [f"--{OPTIONS[name]}={value}" for name, value in values.items()]
    return [*SMALL, *TRAINERS[trainer], *given]


def variants():
    """Options of every variant by its name."""
    points = [{"trainer": trainer} for trainer in TRAINERS]
    points += [{"trainer": name, "classes": c} for name in ("C2", "C2-CCP") for c in CLASSES]
    points += [{"proxies": k, "weight": weight} for k in PROXIES for weight in WEIGHTS]
    points += [{"proxies": k, "pool": pool} for k in PROXIES for pool in POOLS]
    return {name_of(**point): options_of(**point) for point in points}


def step_rows(folders):
    """Rows of `records.write`: steps to the best model, problems, steps of each on average.

    Args:
        folders: as `sweep` returns; runs without CCP have no problems.
    """
    for (variant, seed), folder in folders.items():
        metrics = folder.metrics()
        yield variant, seed, "steps to the best", STEPS_PER_EPOCH * metrics["best_epoch"]
        steps = [problem["steps"] for problem in metrics.get("projections", ())]
        if steps:
            yield variant, seed, "problems", len(steps)
            yield variant, seed, "steps per problem", np.mean(steps)


def problem_rows(folders):
    """Rows of `records.write`: the steps of each problem of CCP.

    Args:
        folders: as `sweep` returns.
    """
    for (variant, seed), folder in folders.items():
        if variant.startswith("C2-CCP"):
            for number, problem in enumerate(folder.metrics()["projections"], start=1):
                yield variant, seed, f"problem {number}", problem["steps"]


def geometry(embeddings, labels):
    """Mean covering radius of a class by 1 to n of its images, and mean distance between classes.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)`.

    Returns:
        dict of two floats.

    Example:
        >>> geometry(np.array([[0.0], [2.0], [5.0], [5.0]]), np.array([0, 0, 1, 1]))
        {'covering radius': 0.5, 'distance between classes': 4.0}
    """
    classes = [embeddings[labels == label] for label in np.unique(labels)]
    radii = [covering_radius_curve(points, len(points)).mean() for points in classes]
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=-1)
    apart = distances[labels[:, None] != labels]
    return {
        "covering radius": float(np.mean(radii)),
        "distance between classes": float(apart.mean()),
    }


def geometry_rows(folders):
    """Rows of `records.write`: `geometry` of the validation classes, for some of the variants.

    Args:
        folders: as `sweep` returns.
    """
    for (variant, seed), folder in folders.items():
        if variant in GEOMETRY:
            recipe = folder.recipe()
            images = load_splits(recipe).validation
            embedder = folder.learner(compile=False).embedder
            embeddings, labels = embed(embedder, evaluation_batches(recipe, images))
            for quantity, value in geometry(embeddings, labels).items():
                yield variant, seed, quantity, value


def picture(values, steps):
    """The sweeps, and the distribution of the steps per problem.

    Args:
        values: as `records.read` returns, of the sweeps.
        steps: the same of `problem_rows`.

    Returns:
        matplotlib Figure.
    """
    figure = transparent_figure(10, 6.4)
    (weights, pools), (batches, histogram) = figure.subplots(2, 2)

    def lines(axes, positions, series):
        for place, (label, names) in enumerate(series.items()):
            style = dict(color=RUN_COLORS[place], marker=RUN_MARKERS[place])
            runs = [list(values[name]["MAP@R"].values()) for name in names]
            axes.plot(positions, [np.mean(run) for run in runs], label=label, **style)
            for position, run in zip(positions, runs, strict=True):
                axes.plot([position] * len(run), run, linestyle="", alpha=0.4, **style)
        axes.legend(frameon=False)
        axes.set(ylabel="MAP@R (%)")

    def by_proxies(name, values):
        return {
            f"{k} {'proxy' if k == 1 else 'proxies'}": [
                name_of(proxies=k, **{name: value}) for value in values
            ]
            for k in PROXIES
        }

    lines(weights, range(len(WEIGHTS)), by_proxies("weight", WEIGHTS))
    weights.set_xticks(range(len(WEIGHTS)), [f"{weight:g}" for weight in WEIGHTS])
    weights.set(title="weight of the projection", xlabel="λ")
    lines(pools, range(len(POOLS)), by_proxies("pool", POOLS))
    pools.set_xticks(range(len(POOLS)), ["random", *POOLS[1:]])
    pools.set(title="pool and proxies", xlabel="images of a class in the pool")
    sizes = [IMAGES_PER_CLASS * value for value in CLASSES]
    of_trainers = {
        trainer: [name_of(trainer, classes=value) for value in CLASSES]
        for trainer in ("C2", "C2-CCP")
    }
    lines(batches, sizes, of_trainers)
    batches.set_xscale("log", base=2)
    batches.set_xticks(sizes, sizes)
    batches.set(title="batch size", xlabel="images in a batch")
    counts = [count for row in steps.values() for cell in row.values() for count in cell.values()]
    width = 4 * STEPS_PER_EPOCH
    edges = np.arange(0, max(counts) + width, width)
    histogram.hist(counts, bins=edges, color=RUN_COLORS[1], edgecolor=INK, linewidth=0.6)
    histogram.set(title="steps per problem", xlabel="steps", ylabel="problems")
    for axes in figure.axes:
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
    steps: str = str(ROOT / "experiments/results/studies/ccp_steps.csv"),
    figure: str = str(ROOT / "docs/figures/ccp.png"),
):
    """Trains what is missing, writes the numbers and draws them.

    Args:
        runs: folder of the run folders.
        jobs: runs at the same time.
        seeds: seeds of every variant.
        recipe: recipe files to vary.
        results: CSV file to write.
        steps: CSV file to write, of the steps of each problem.
        figure: picture to write.
    """
    found = sweep(recipe, variants(), seeds, runs, jobs)
    write(results, [*retrieval_rows(found), *step_rows(found), *geometry_rows(found)])
    write(steps, problem_rows(found))
    save(picture(read(results), read(steps)), figure)


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
