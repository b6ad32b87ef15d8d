"""How CCP depends on its parameters (thesis 2022, Fig. 3.3 and 3.5 to 3.8, Table 3.3).

Sweeps with C2 over a small form of omniglot_ccp.yaml, evaluated every 25 steps with a patience of
3, the thesis' values: the weight λ of the projection, the pool by the proxies of a class, the batch
size with CCP and without, and a single problem instead of a series. The second table has the
steps of each problem, and the first the covering radius of the validation classes for C2, the
single problem and CCP.
"""

import numpy as np
from ccp_geometry import distance_between_classes
from pictures import open_sides
from sweep import HERE, embedded, opened, retrieval_rows, sweep

from gsp_tf.evaluation import covering_radius_curve
from gsp_tf.visual import INK, RUN_COLORS, run_style, transparent_figure

FILES = ("ccp", "ccp_steps")
RECIPE = str(HERE / "omniglot_ccp.yaml")
STEPS_PER_EPOCH, EPOCHS, IMAGES_PER_CLASS = 25, 36, 4
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


def name_of(trainer="C2-CCP", **values):
    """Name of a variant: what differs from `CENTRE`, so that the sweeps share its own values."""
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


def study(
    recipe: tuple[str, ...] = (RECIPE,),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
):
    """Trains what is missing and measures."""
    found = sweep(recipe, variants(), seeds, runs, jobs)
    rows = [*retrieval_rows(found), *step_rows(found), *geometry_rows(found)]
    return rows, problem_rows(found), {}


def step_rows(folders):
    """Rows of the steps to the best model, the number of problems, and their mean steps."""
    for (variant, seed), folder in folders.items():
        metrics = folder.metrics()
        yield variant, seed, "steps to the best", STEPS_PER_EPOCH * metrics["best_epoch"]
        steps = [problem["steps"] for problem in metrics.get("projections", ())]
        if steps:
            yield variant, seed, "problems", len(steps)
            yield variant, seed, "steps per problem", np.mean(steps)


def problem_rows(folders):
    """Rows of the steps of each problem of CCP."""
    for (variant, seed), folder in folders.items():
        if variant.startswith("C2-CCP"):
            for number, problem in enumerate(folder.metrics()["projections"], start=1):
                yield variant, seed, f"problem {number}", problem["steps"]


def geometry(embeddings, labels):
    """Mean covering radius of a class by 1 to n of its images, and mean distance between classes.

    Example:
        >>> geometry(np.array([[0.0], [2.0], [5.0], [5.0]]), np.array([0, 0, 1, 1]))
        {'covering radius': 0.5, 'distance between classes': 4.0}
    """
    classes = [embeddings[labels == label] for label in np.unique(labels)]
    radii = [covering_radius_curve(points, len(points)).mean() for points in classes]
    apart = distance_between_classes(embeddings, labels)
    return {"covering radius": float(np.mean(radii)), "distance between classes": apart}


def geometry_rows(folders):
    """Rows of `geometry` of the validation classes, for the three trainers."""
    chosen = {key: folder for key, folder in folders.items() if key[0] in TRAINERS}
    for key, recipe, splits, embedder in opened(chosen):
        found = geometry(*embedded(embedder, recipe, splits.validation))
        yield from ((*key, *item) for item in found.items())


def draw(values, steps):
    """The sweeps, and the distribution of the steps per problem."""
    figure = transparent_figure(10, 6.4)
    (weights, pools), (batches, histogram) = figure.subplots(2, 2)

    def lines(axes, positions, ticks, series, **texts):
        for place, (label, names) in enumerate(series.items()):
            style = dict(zip(("color", "marker"), run_style(place), strict=True))
            runs = [list(values[name]["MAP@R"].values()) for name in names]
            axes.plot(positions, [np.mean(run) for run in runs], label=label, **style)
            for position, run in zip(positions, runs, strict=True):
                axes.plot([position] * len(run), run, linestyle="", alpha=0.4, **style)
        axes.legend(frameon=False)
        axes.set(ylabel="MAP@R (%)", **texts)
        axes.set_xticks(positions, ticks)

    def by_proxies(name, values):
        return {
            f"{k} {'proxy' if k == 1 else 'proxies'}": [
                name_of(proxies=k, **{name: value}) for value in values
            ]
            for k in PROXIES
        }

    ticks = [f"{weight:g}" for weight in WEIGHTS]
    texts = dict(title="weight of the projection", xlabel="λ")
    lines(weights, range(len(WEIGHTS)), ticks, by_proxies("weight", WEIGHTS), **texts)
    texts = dict(title="pool and proxies", xlabel="images of a class in the pool")
    ticks = ["random", *POOLS[1:]]
    lines(pools, range(len(POOLS)), ticks, by_proxies("pool", POOLS), **texts)
    sizes = [IMAGES_PER_CLASS * value for value in CLASSES]
    of_trainers = {
        trainer: [name_of(trainer, classes=value) for value in CLASSES]
        for trainer in ("C2", "C2-CCP")
    }
    batches.set_xscale("log", base=2)
    lines(batches, sizes, sizes, of_trainers, title="batch size", xlabel="images in a batch")
    counts = [count for row in steps.values() for cell in row.values() for count in cell.values()]
    width = 4 * STEPS_PER_EPOCH
    edges = np.arange(0, max(counts) + width, width)
    histogram.hist(counts, bins=edges, color=RUN_COLORS[1], edgecolor=INK, linewidth=0.6)
    histogram.set(title="steps per problem", xlabel="steps", ylabel="problems")
    for axes in figure.axes:
        axes.tick_params(colors=INK)
    open_sides(figure)
    figure.tight_layout()
    return {"ccp": figure}
