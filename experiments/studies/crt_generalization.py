"""Embedding density and spectral decay with and without CRT (Kan et al. 2022, Tables 1 and 2).

python experiments/studies/crt_generalization.py [--runs FOLDER] [--seeds "[0, 1, 2]"] [--jobs 2]

Takes the runs that are in the folder, as experiments/small_collage.sh leaves them there, and trains
those that are missing. All have the multi-similarity loss of small_collage_crt.yaml. The baseline
is average pooling and a dense layer, the last row of the paper's Table 6.
"""

from pathlib import Path

from jsonargparse import auto_cli
from matplotlib.ticker import MaxNLocator
from pictures import save
from records import read, table, write
from sweep import sweep, titled

from gsp_tf.evaluation import embedding_density, retrieval_metrics, spectral_decay
from gsp_tf.runs import evaluation_batches, load_splits
from gsp_tf.training import embed
from gsp_tf.visual import INK, RUN_COLORS, RUN_MARKERS, transparent_figure

ROOT = Path(__file__).parent.parent.parent
CRT_RECIPE = str(ROOT / "experiments/small_collage_crt.yaml")
# By title: the name of the run, and its options after small_collage_crt.yaml.
VARIANTS = {
    "baseline": (
        "small_collage_ms-gap",
        ["--head=null", "--loss_weights={}", "--embedding.second_dim=null"],
    ),
    "CRT": ("small_collage_crt", []),
}
SPLITS = {"training classes": "train", "unseen classes": "test"}
PANELS = ("density", "spectral decay", "MAP@R (%)")


def geometry(embeddings, labels):
    """The numbers of one set of embeddings.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)`.

    Returns:
        dict from quantity to float.
    """
    density = embedding_density(embeddings, labels, distance="cosine")
    return {
        "within classes": density["intra"],
        "between classes": density["inter"],
        "density": density["ratio"],
        "density, Euclidean": embedding_density(embeddings, labels)["ratio"],
        "spectral decay": spectral_decay(embeddings),
        "MAP@R (%)": 100 * retrieval_metrics(embeddings, labels)["map_at_r"],
    }


def trained(recipe, runs, seeds, jobs):
    """Run folders by variant and seed, trained where they are missing.

    Args:
        recipe, runs, seeds, jobs: as `main` takes them.

    Returns:
        dict from `(variant, seed)` to `RunFolder`.
    """
    folders = sweep([*recipe, CRT_RECIPE], dict(VARIANTS.values()), seeds, runs, jobs)
    return titled(folders, VARIANTS)


def measure(folders):
    """Rows for `records.write`, a variant for each model and split.

    Args:
        folders: as `trained` returns.
    """
    for (variant, seed), folder in folders.items():
        recipe = folder.recipe()
        splits, embedder = load_splits(recipe), folder.learner(compile=False).embedder
        for title, split in SPLITS.items():
            batches = evaluation_batches(recipe, getattr(splits, split))
            for quantity, value in geometry(*embed(embedder, batches)).items():
                yield f"{variant}, {title}", seed, quantity, value


def picture(values):
    """A panel for each of `PANELS`, a mark for each seed.

    Args:
        values: as `records.read` returns.

    Returns:
        matplotlib Figure.
    """
    figure = transparent_figure(10, 3.2)
    for axes, quantity in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for place, title in enumerate(SPLITS):
            for offset, variant in enumerate(VARIANTS):
                points = list(values[f"{variant}, {title}"][quantity].values())
                x = place + 0.2 * (offset - (len(VARIANTS) - 1) / 2)
                style = dict(color=RUN_COLORS[offset], marker=RUN_MARKERS[offset], linestyle="")
                axes.plot([x] * len(points), points, label=None if place else variant, **style)
        axes.set(xticks=range(len(SPLITS)), xticklabels=SPLITS, xlim=(-0.5, 1.5), title=quantity)
        axes.set_ylim(0, 1.1 * axes.dataLim.ymax)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.tick_params(colors=INK)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="lower center", ncols=len(VARIANTS), frameon=False)
    return figure


def main(
    recipe: tuple[str, ...] = (str(ROOT / "experiments/small_collage.yaml"),),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
    results: str = str(ROOT / "experiments/results/studies/crt_generalization.csv"),
    figure: str = str(ROOT / "docs/figures/crt_generalization.png"),
):
    """Measures and draws.

    Args:
        recipe: YAML files of the collage.
        runs: folder of the run folders `small_collage_NAME-SEED`.
        seeds: seeds of the runs.
        jobs: runs at the same time.
        results: CSV file to write.
        figure: picture to write.
    """
    write(results, measure(trained(recipe, runs, seeds, jobs)))
    save(picture(read(results)), figure)
    print(table(results))


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
