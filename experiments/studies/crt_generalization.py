"""Embedding density and spectral decay with and without CRT (Kan et al. 2022, Tables 1 and 2).

Takes the runs of the study small_collage that are in `runs`. All have the multi-similarity loss of
small_collage_crt.yaml. The baseline is average pooling and a dense layer, the last row of the
paper's Table 6.
"""

from matplotlib.ticker import MaxNLocator
from pictures import open_sides
from sweep import HERE, TRAINING, UNSEEN, embedded, opened, titled_sweep

from gsp_tf.evaluation import embedding_density, retrieval_metrics, spectral_decay
from gsp_tf.visual import INK, run_style, transparent_figure

CRT_RECIPE = str(HERE / "small_collage_crt.yaml")
BASELINE = ["--head=null", "--loss_weights={}", "--embedding.second_dim=null"]
VARIANTS = {"baseline": ("small_collage_ms-gap", BASELINE), "CRT": ("small_collage_crt", [])}
PANELS = ("density", "spectral decay", "MAP@R (%)")


def geometry(embeddings, labels):
    """The numbers of one set of embeddings `(N, D)`."""
    density = embedding_density(embeddings, labels, distance="cosine")
    return {
        "within classes": density["intra"],
        "between classes": density["inter"],
        "density": density["ratio"],
        "density, Euclidean": embedding_density(embeddings, labels)["ratio"],
        "spectral decay": spectral_decay(embeddings),
        "MAP@R (%)": 100 * retrieval_metrics(embeddings, labels)["map_at_r"],
    }


def study(
    recipe: tuple[str, ...] = (str(HERE / "small_collage.yaml"),),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
):
    """Trains what is missing and measures."""
    return measured(titled_sweep([*recipe, CRT_RECIPE], VARIANTS, seeds, runs, jobs)), {}


def measured(folders):
    """Rows of each model with each set of classes."""
    return [
        (f"{variant}, {title}", seed, *item)
        for (variant, seed), recipe, splits, embedder in opened(folders)
        for title, images in ((TRAINING, splits.train), (UNSEEN, splits.test))
        for item in geometry(*embedded(embedder, recipe, images)).items()
    ]


def draw(values):
    """A panel for each of `PANELS`, a mark for each seed."""
    figure, splits = transparent_figure(10, 3.2), (TRAINING, UNSEEN)
    for axes, quantity in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for place, title in enumerate(splits):
            for offset, variant in enumerate(VARIANTS):
                points = list(values[f"{variant}, {title}"][quantity].values())
                x = place + 0.2 * (offset - (len(VARIANTS) - 1) / 2)
                color, marker = run_style(offset)
                style = dict(color=color, marker=marker, linestyle="")
                axes.plot([x] * len(points), points, label=None if place else variant, **style)
        axes.set(xticks=range(len(splits)), xticklabels=splits, xlim=(-0.5, 1.5), title=quantity)
        axes.set_ylim(0, 1.1 * axes.dataLim.ymax)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.tick_params(colors=INK)
    open_sides(figure)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="lower center", ncols=len(VARIANTS), frameon=False)
    return {"crt_generalization": figure}
