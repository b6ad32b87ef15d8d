"""How GSP depends on its parameters (GSP paper, Fig. 7 right; thesis 2022, Fig. 5.10, Table 5.4).

Three sweeps over small_collage.yaml with C2: the transport ratio μ with three seeds, the number of
prototypes m by the entropy smoothing ε with one, and a screening design (Plackett, Burman 1946) of
seven factors in eight runs, whose effects are differences of means of four. Table 5.4 has four of
them, m, μ, ε and λ, at other levels; the other three are options of this library.
"""

import numpy as np
from scipy.linalg import hadamard
from sweep import HERE, retrieval_rows, sweep
from sweeps import C2, GSP

from gsp_tf.visual import INK, RUN_COLORS, transparent_figure

RECIPE = str(HERE / "small_collage.yaml")
POOLING = [C2, "--pooling.name=gsp"]
RATIOS = (0.1, 0.25, 0.5, 0.75, 1.0)
PROTOTYPES = (4, 16, 64)
SMOOTHINGS = (1.0, 5.0, 20.0, 100.0)
FACTORS = {
    "m": ("--pooling.num_prototypes=16", "--pooling.num_prototypes=64"),
    "μ": ("--pooling.transport_ratio=0.15", "--pooling.transport_ratio=0.4"),
    "ε": ("--pooling.entropy_smoothing=5", "--pooling.entropy_smoothing=20"),
    "λ": ("--zero_shot.weight=0.0", "--zero_shot.weight=0.1"),
    "prototypes from data": ("--training.adapt_batches=0", "--training.adapt_batches=8"),
    "1x1 convolution first": (
        "--embedding.position=after_pooling",
        "--embedding.position=before_pooling",
    ),
    "learning rate of prototypes x 10": (
        "--training.learning_rate_multipliers={}",
        '--training.learning_rate_multipliers={"prototypes":10.0}',
    ),
}
LEVELS = hadamard(len(FACTORS) + 1)[:, 1:]  # low (-1) and high (1) of each factor, (8, 7)
BY_RATIO = {f"mu-{mu}": [*POOLING, *GSP, f"--pooling.transport_ratio={mu}"] for mu in RATIOS}
GRID = {
    f"m-{m}-eps-{eps:g}": [
        *POOLING, *GSP, f"--pooling.num_prototypes={m}", f"--pooling.entropy_smoothing={eps}"
    ]
    for m in PROTOTYPES
    for eps in SMOOTHINGS
}  # fmt: skip
SCREENING = {
    f"screening-{run}": [
        *POOLING,
        *(options[int(high > 0)] for high, options in zip(row, FACTORS.values(), strict=True)),
    ]
    for run, row in enumerate(LEVELS)
}


def effects(values):
    """Means of the four runs with the high level of a factor, minus those with the low one."""
    return dict(zip(FACTORS, LEVELS.T @ np.asarray(values) / 4, strict=True))


def study(
    recipe: tuple[str, ...] = (RECIPE,),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
):
    """The grid and the screening design take the first of the seeds."""
    rows = retrieval_rows(sweep(recipe, BY_RATIO, seeds, runs, jobs))
    rows += retrieval_rows(sweep(recipe, GRID | SCREENING, seeds[:1], runs, jobs))
    measured = [v for name, _, key, v in rows if name in SCREENING and key == "MAP@R"]
    of_effects = effects(measured).items()
    return [*rows, *((f"effect of {name}", seeds[0], "MAP@R", v) for name, v in of_effects)], {}


def draw(values):
    """The three sweeps side by side."""
    found = {name: list(row["MAP@R"].values()) for name, row in values.items()}
    figure = transparent_figure(12, 3.6)
    figure.set_layout_engine("constrained", wspace=0.06)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.1, 1))
    for mu, name in zip(RATIOS, BY_RATIO, strict=True):
        left.plot([mu] * len(found[name]), found[name], "o", color=RUN_COLORS[0], alpha=0.5)
    left.plot(RATIOS, [np.mean(found[name]) for name in BY_RATIO], color=RUN_COLORS[0])
    left.set(title="transport ratio μ (1 is GAP)", xlabel="μ", ylabel="MAP@R (%)")
    grid = [np.mean(found[name]) for name in GRID]
    grid = np.reshape(grid, (len(PROTOTYPES), len(SMOOTHINGS)))
    middle.imshow(grid, cmap="Blues", vmin=0, aspect="auto")
    for (row, column), value in np.ndenumerate(grid):
        ink = "white" if value > 0.6 * grid.max() else INK
        middle.text(column, row, f"{value:.1f}", ha="center", va="center", color=ink)
    middle.set_xticks(range(len(SMOOTHINGS)), [f"{value:g}" for value in SMOOTHINGS])
    middle.set_yticks(range(len(PROTOTYPES)), PROTOTYPES)
    middle.set(title="MAP@R (%)", xlabel="ε", ylabel="prototypes m")
    names = list(FACTORS)[::-1]
    bars = [found[f"effect of {name}"][0] for name in names]
    right.barh(names, bars, color=RUN_COLORS[1], alpha=0.7)
    right.axvline(0, color=INK, linewidth=0.8)
    right.set(title="effect of the high level", xlabel="points of MAP@R")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return {"sensitivity": figure}
