"""How GSP depends on its parameters (GSP paper, Fig. 7 right; thesis 2022, Fig. 5.10, Table 5.4).

python experiments/studies/sensitivity.py [--runs FOLDER] [--jobs 2]

Three sweeps over small_collage.yaml with C2: the transport ratio μ with three seeds, the number of
prototypes m by the entropy smoothing ε with one, and a screening design (Plackett, Burman 1946) of
seven factors in eight runs, whose effects are differences of means of four. Table 5.4 has four of
them, m, μ, ε and λ, at other levels; the other three are options of this library.
"""

from pathlib import Path

import numpy as np
from jsonargparse import auto_cli
from pictures import save
from records import read, write
from scipy.linalg import hadamard
from sweep import retrieval_rows, sweep

from gsp_tf.visual import INK, RUN_COLORS, transparent_figure

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "experiments/small_collage.yaml"
C2 = '--loss={"name":"contrastive","positive_margin":0.0,"negative_margin":0.5}'
GSP = [C2, "--pooling.name=gsp"]
CENTRE = [
    "--pooling.transport_ratio=0.25",
    "--pooling.entropy_smoothing=10",
    "--training.adapt_batches=8",
]
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


def ratio_variants():
    """Variants of the sweep of μ."""
    return {
        f"mu-{ratio}": [*GSP, *CENTRE, f"--pooling.transport_ratio={ratio}"] for ratio in RATIOS
    }


def grid_variants():
    """Variants of the grid of m and ε."""
    return {
        f"m-{m}-eps-{smoothing:g}": [
            *GSP,
            *CENTRE,
            f"--pooling.num_prototypes={m}",
            f"--pooling.entropy_smoothing={smoothing}",
        ]
        for m in PROTOTYPES
        for smoothing in SMOOTHINGS
    }


def screening_levels():
    """Low (-1) and high (1) of each factor `(8, 7)`, columns orthogonal."""
    return hadamard(len(FACTORS) + 1)[:, 1:]


def screening_variants():
    """Variants of the screening design."""
    return {
        f"screening-{run}": [
            *GSP,
            *(
                options[int(level > 0)]
                for level, options in zip(row, FACTORS.values(), strict=True)
            ),
        ]
        for run, row in enumerate(screening_levels())
    }


def effects(values):
    """Mean of the runs with the high level minus mean of those with the low one.

    Args:
        values: `(8,)`, in the order of `screening_variants`.

    Returns:
        dict from factor to float.
    """
    return dict(zip(FACTORS, screening_levels().T @ np.asarray(values) / 4, strict=True))


def picture(values, of_effects):
    """The three sweeps side by side.

    Args:
        values: as `records.read` returns.
        of_effects: as `effects` returns.

    Returns:
        matplotlib Figure.
    """
    figure = transparent_figure(12, 3.6)
    figure.set_layout_engine("constrained", wspace=0.06)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.1, 1))
    by_ratio = [list(values[name]["MAP@R"].values()) for name in ratio_variants()]
    for ratio, points in zip(RATIOS, by_ratio, strict=True):
        left.plot([ratio] * len(points), points, "o", color=RUN_COLORS[0], alpha=0.5)
    left.plot(RATIOS, [np.mean(points) for points in by_ratio], color=RUN_COLORS[0])
    left.set(title="transport ratio μ (1 is GAP)", xlabel="μ", ylabel="MAP@R (%)")
    grid = [np.mean(list(values[name]["MAP@R"].values())) for name in grid_variants()]
    grid = np.reshape(grid, (len(PROTOTYPES), len(SMOOTHINGS)))
    middle.imshow(grid, cmap="Blues", vmin=0, aspect="auto")
    for (row, column), value in np.ndenumerate(grid):
        ink = "white" if value > 0.6 * grid.max() else INK
        middle.text(column, row, f"{value:.1f}", ha="center", va="center", color=ink)
    middle.set_xticks(range(len(SMOOTHINGS)), [f"{value:g}" for value in SMOOTHINGS])
    middle.set_yticks(range(len(PROTOTYPES)), PROTOTYPES)
    middle.set(title="MAP@R (%)", xlabel="ε", ylabel="prototypes m")
    names = list(of_effects)[::-1]
    right.barh(names, [of_effects[name] for name in names], color=RUN_COLORS[1], alpha=0.7)
    right.axvline(0, color=INK, linewidth=0.8)
    right.set(title="effect of the high level", xlabel="points of MAP@R")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def main(
    runs: str = "runs",
    jobs: int = 1,
    seeds: tuple[int, ...] = (0, 1, 2),
    recipe: tuple[str, ...] = (str(RECIPE),),
    results: str = str(ROOT / "experiments/results/studies/sensitivity.csv"),
    figure: str = str(ROOT / "docs/figures/sensitivity.png"),
):
    """Trains what is missing, writes the numbers and draws them.

    Args:
        runs: folder of the run folders.
        jobs: runs at the same time.
        seeds: seeds of the sweep of μ; the grid and the screening design take the first.
        recipe: recipe files to vary.
        results: CSV file to write.
        figure: picture to write.
    """
    single = {**grid_variants(), **screening_variants()}
    rows = retrieval_rows(sweep(recipe, ratio_variants(), seeds, runs, jobs))
    rows += retrieval_rows(sweep(recipe, single, seeds[:1], runs, jobs))
    measured = [v for name, _, key, v in rows if name in screening_variants() and key == "MAP@R"]
    of_effects = effects(measured)
    rows += [(f"effect of {name}", seeds[0], "MAP@R", v) for name, v in of_effects.items()]
    write(results, rows)
    save(picture(read(results), of_effects), figure)


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
