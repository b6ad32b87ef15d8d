"""One self-contained page about one or several runs."""

from pathlib import Path

import numpy as np
from markupsafe import Markup

from gsp_tf.evaluation import ExactSearch
from gsp_tf.files import replace_text
from gsp_tf.visual.attention import overlay_groups
from gsp_tf.visual.correlation_maps import correlation_maps
from gsp_tf.visual.curves import training_curves
from gsp_tf.visual.embedding_map import FEWEST_FOR_TSNE, embedding_map, project
from gsp_tf.visual.gallery import neighbour_gallery
from gsp_tf.visual.images import inline_svg, png_uri, thumbnail
from gsp_tf.visual.metric_names import display_name, is_share
from gsp_tf.visual.overlay import color_scale
from gsp_tf.visual.selection import class_by_class, few_classes, telling_queries
from gsp_tf.visual.style import CLASS_COLORS, run_style
from gsp_tf.visual.templates import page_template

OVERLAYS, OVERLAY_PIXELS = 8, 160
QUERIES, NEIGHBOURS, CANDIDATES = 8, 8, 256
COUNTS = {"num_queries": "Queries", "num_skipped": "Skipped"}


def write_report(path, title, runs, seed=0):
    """Writes one HTML page about runs that were evaluated on the same images.

    The page holds metrics, training curves, pooling weights over images, nearest neighbours, maps
    of the embeddings, notes and recipes. It requests nothing from anywhere. Large sets are
    sampled; the same images stand for every run.

    Args:
        path: file to write; replaced in one step if it exists.
        title: heading of the page.
        runs: list of `RunSummary`.
        seed: integer seed of the samples and maps.

    Returns:
        pathlib.Path of the page.

    Raises:
        ValueError: without runs, or if their images or labels differ.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from gsp_tf.visual import RunSummary
        >>> images = np.zeros((4, 8, 8, 1), np.uint8)
        >>> run = RunSummary("gap", {}, {}, images, [0, 0, 1, 1], ["a", "b"], np.eye(4))
        >>> with TemporaryDirectory() as folder:
        ...     write_report(Path(folder) / "report.html", "Demo", [run]).name
        'report.html'
    """
    _check_comparable(runs)
    first = runs[0]
    order = class_by_class(first.labels, seed)
    page = page_template("report.html").render(
        title=title,
        runs=[
            {
                "name": run.name,
                "color": run_style(position)[0],
                "recipe": run.recipe,
            }
            for position, run in enumerate(runs)
        ],
        notes=_notes(runs),
        num_images=len(first.images),
        num_classes=len(np.unique(first.labels)),
        table=_metrics_table(runs),
        curves={
            name: Markup(inline_svg(figure))
            for name, figure in training_curves([run.history for run in runs]).items()
        },
        projections=_projections(runs),
        has_validation_loss=any("val_loss" in run.history for run in runs),
        overlays=_overlays(runs, order[:OVERLAYS]),
        correlations=_correlations(runs, order[:OVERLAYS]),
        scale=color_scale(),
        gallery=_gallery(runs, order),
        maps=_maps(runs, seed),
    )
    replace_text(path, page)
    return Path(path)


def _check_comparable(runs):
    if not runs:
        raise ValueError("A report needs at least one run; received none.")
    for run in runs[1:]:
        for name in ("images", "labels"):
            ours, theirs = getattr(run, name), getattr(runs[0], name)
            if ours is not theirs and not np.array_equal(ours, theirs):
                raise ValueError(
                    f"Runs in one report must be evaluated on the same images; the {name} of "
                    f"{run.name!r} {ours.shape} differ from those of {runs[0].name!r} "
                    f"{theirs.shape}."
                )


def _notes(runs):
    """Pairs of a run's name and a note; the name is empty for a note that every run has."""
    shared = [note for note in runs[0].notes if all(note in run.notes for run in runs[1:])]
    own = [(run.name, note) for run in runs for note in run.notes if note not in shared]
    return [("" if len(runs) > 1 else runs[0].name, note) for note in shared] + own


def _metrics_table(runs):
    """Column names, for each run its cells as (text, is best), and what the table is about."""
    keys = dict.fromkeys(key for run in runs for key in run.metrics)
    shares = [key for key in keys if is_share(key)]
    others = [key for key in keys if key not in shares and key not in COUNTS]
    columns = [*shares, *others, *(key for key in COUNTS if key in keys)]
    rows = []
    for run in runs:
        cells = []
        for key in columns:
            best = max(other.metrics.get(key, -np.inf) for other in runs)
            text = _shown(key, run.metrics.get(key))
            is_best = len(runs) > 1 and key in shares and text == _shown(key, best)
            cells.append((text, is_best))
        rows.append((run.name, cells))
    return {
        "columns": [COUNTS.get(key, display_name(key)) for key in columns],
        "rows": rows,
        "clusters": "nmi" in keys,
        "skipped": any(run.metrics.get("num_skipped") for run in runs),
    }


def _shown(key, value):
    if value is None:
        return "–"
    if is_share(key):
        return f"{100 * value:.2f}"
    return f"{value:,}" if key in COUNTS else f"{value:.4g}"


def _projections(runs):
    """For each run that trained by CCP: name, metric and a row of texts for each problem."""
    return [
        (
            run.name,
            display_name(_followed(run.projections[0])),
            [
                (
                    f"{problem['steps']:,}",
                    _shown(_followed(problem), problem[_followed(problem)]),
                    *(
                        "–" if problem[key] is None else f"{problem[key]:.3f}"
                        for key in (
                            "covering_radius_before",
                            "covering_radius_after",
                            "distance_moved",
                        )
                    ),
                )
                for problem in run.projections
            ],
        )
        for run in runs
        if run.projections
    ]


def _followed(problem):
    """The metric by which CCP followed a problem."""
    return next(key for key in problem if is_share(key))


def _overlays(runs, indices):
    first = runs[0]
    thumbnails = [thumbnail(first.images[i], OVERLAY_PIXELS) for i in indices]
    rows = []
    for run in runs:
        if run.pooling_weights is None:
            continue
        pictures = [
            overlay_groups(picture, run.pooling_weights[i])
            for picture, i in zip(thumbnails, indices, strict=True)
        ]
        for number, row in enumerate(zip(*pictures, strict=True), start=1):
            name = run.name if len(pictures[0]) == 1 else f"{run.name}, group {number}"
            rows.append((name, [png_uri(picture) for picture in row]))
    if not rows:
        return None
    return {
        "rows": [("Image", [png_uri(picture) for picture in thumbnails]), *rows],
        "classes": [first.class_name(first.labels[i]) for i in indices],
    }


def _correlations(runs, indices):
    """Name and figure of each run whose embeddings come from prototypes' correlations."""
    return [
        (
            run.name,
            Markup(inline_svg(correlation_maps(run.images[indices], run.correlations[indices]))),
        )
        for run in runs
        if run.correlations is not None
    ]


def _gallery(runs, order):
    """For each chosen query its class and, for each run, a row of pictures and its names."""
    labels = runs[0].labels
    classes, counts = np.unique(labels, return_counts=True)
    candidates = order[np.isin(labels[order], classes[counts > 1])][:CANDIDATES]
    if not len(candidates):
        return []
    k = min(NEIGHBOURS, len(labels) - 1)
    found = [ExactSearch(run.embeddings)(run.embeddings[candidates], k, candidates) for run in runs]
    hits = np.array([labels[indices[:, 0]] == labels[candidates] for indices, _ in found])
    return [
        {
            "class": runs[0].class_name(labels[candidates[row]]),
            "rows": [
                _gallery_row(run, candidates[row], indices[row], distances[row])
                for run, (indices, distances) in zip(runs, found, strict=True)
            ],
        }
        for row in telling_queries(hits, QUERIES)
    ]


def _gallery_row(run, query, indices, distances):
    figure = neighbour_gallery(run.images, run.labels, [query], [indices], [distances])
    hits = run.labels[indices] == run.labels[query]
    return {
        "run": run.name,
        "figure": Markup(inline_svg(figure)),
        "names": [
            (run.class_name(run.labels[i]), bool(hit)) for i, hit in zip(indices, hits, strict=True)
        ],
    }


def _maps(runs, seed):
    chosen = few_classes(runs[0].labels, seed)
    labels, images = runs[0].labels[chosen], runs[0].images[chosen]
    classes, first = np.unique(labels, return_index=True)
    return {
        "figures": [
            (
                run.name,
                Markup(
                    inline_svg(embedding_map(project(run.embeddings[chosen], seed), labels, images))
                ),
            )
            for run in runs
        ],
        "legend": [
            (runs[0].class_name(label), color, png_uri(thumbnail(images[i], 48)))
            for label, color, i in zip(classes, CLASS_COLORS, first, strict=False)
        ],
        "num_points": len(chosen),
        "method": "PCA" if len(chosen) < FEWEST_FOR_TSNE else "t-SNE",
    }
