"""The report, a self-contained page about one or more runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from gsp_tf._typing import PathLike
from gsp_tf.data import class_by_class
from gsp_tf.evaluation import ExactSearch
from gsp_tf.visual._metrics import display_name, is_share
from gsp_tf.visual._pages import inline_svg, png_uri, thumbnail, write_page
from gsp_tf.visual._style import run_style
from gsp_tf.visual.curves import training_curves
from gsp_tf.visual.overlays import NEAR_AVERAGE, color_scale, overlay_groups, weight_spread
from gsp_tf.visual.plane import FEWEST_FOR_TSNE, class_marker, embedding_map, project
from gsp_tf.visual.prototype_figures import correlation_maps

_THUMBNAIL_PIXELS, _GALLERY_PIXELS, _CHIP_PIXELS = 160, 112, 48
_OVERLAYS = 8
_QUERIES, _NEIGHBOURS, _CANDIDATES = 8, 8, 256
_COUNTS = {"num_queries": "Queries", "num_skipped": "Skipped"}
_CLASSES, _POINTS = 12, 600  # of a map of embeddings
_Measured = tuple[Mapping[str, float], Mapping[str, Sequence[float]]]


@dataclass
class RunSummary:
    """One evaluated run: its N images, their embeddings, and what was measured."""

    name: str
    metrics: dict[str, float | int]  # of `retrieval_metrics`, possibly with others
    history: dict[str, list[float]]  # values per epoch by name; empty if nothing was recorded
    images: Sequence[np.ndarray] | np.ndarray  # uint8 (H, W, 1) or (H, W, 3), read by index
    labels: np.ndarray  # integers (N,)
    class_names: Sequence[str] | Mapping[int, str]
    embeddings: np.ndarray  # floats (N, D)
    pooling_weights: Mapping[int, np.ndarray] | None = None  # (h, w, maps), by image
    correlations: Mapping[int, np.ndarray] | None = None  # with prototypes, (h, w, K), by image
    paths: Sequence[str] | None = None
    recipe: str = ""  # the resolved recipe
    projections: list[dict] = field(default_factory=list)  # of `ChanceConstrainedTrainer`
    notes: list[str] = field(default_factory=list)  # for readers of the results
    intervals: Mapping[str, Sequence[float]] = field(default_factory=dict)  # ends by metric
    by_dim: Mapping[int, _Measured] = field(default_factory=dict)  # of prefixes of the embeddings
    baselines: Mapping[str, _Measured] = field(default_factory=dict)  # on the same images, by name
    untrained: Mapping[str, float] = field(default_factory=dict)  # epoch 0 of `history`

    def class_of(self, index: int) -> str:
        """The class name of an image as text."""
        return str(self.class_names[int(self.labels[index])])

    def path(self, index: int) -> str:
        """The file name of an image, empty if it is unknown."""
        return "" if self.paths is None else str(self.paths[int(index)])


def _few_classes(labels: ArrayLike) -> np.ndarray:
    """Sorted image indices from a few random classes, about equally many per class."""
    order = class_by_class(labels)
    in_order = np.asarray(labels)[order]
    first = np.sort(np.unique(in_order, return_index=True)[1])
    chosen = np.isin(in_order, in_order[first[:_CLASSES]])
    return np.sort(order[chosen][:_POINTS])


def _telling_queries(hits: np.ndarray, count: int) -> np.ndarray:
    """Up to `count` queries, taken in turns from those that some, all or no runs have hit."""
    won = np.asarray(hits).mean(axis=0)
    outcomes = [np.flatnonzero(group) for group in ((won > 0) & (won < 1), won == 1, won == 0)]
    turns = [(turn, kind) for kind, found in enumerate(outcomes) for turn in range(len(found))]
    return np.array([outcomes[kind][turn] for turn, kind in sorted(turns)[:count]], dtype=int)


def write_report(path: PathLike, title: str, runs: Sequence[RunSummary]) -> Path:
    """Writes one HTML page about runs that were evaluated on the same images; returns its path.

    The page shows metrics, training curves, pooling weights over images, nearest neighbours, maps
    of the embeddings, notes and recipes. It loads nothing from elsewhere. Every run shows the same
    images, about a hundred for one run; they are read one at a time.
    """
    _check_comparable(runs)
    first = runs[0]
    order = class_by_class(first.labels).tolist()
    thumbnails = _Thumbnails(first.images)
    curves = training_curves([run.history for run in runs], [run.untrained for run in runs])
    return write_page(
        path,
        "report.html",
        title=title,
        runs=runs,
        first=first,
        colors=[run_style(position)[0] for position in range(len(runs))],
        name_of=lambda key: _COUNTS.get(key, display_name(key)),
        shown=_shown,
        notes=_notes(runs),
        num_images=len(first.images),
        num_classes=len(np.unique(first.labels)),
        table=_metrics_table(runs),
        curves={name: Markup(inline_svg(figure)) for name, figure in curves.items()},
        projections=[
            (run, next(filter(is_share, run.projections[0]))) for run in runs if run.projections
        ],
        prefixes=_prefixes(runs),
        has_validation_loss=any("val_loss" in run.history for run in runs),
        overlays=_overlays(runs, order, thumbnails),
        correlations=_correlations(runs, order),
        scale=color_scale(),
        gallery=_gallery(runs, np.array(order)),
        tile_uri=lambda index: thumbnails.uri(index, _GALLERY_PIXELS),
        maps=_maps(runs, thumbnails),
    )


class _Thumbnails(dict):
    """Thumbnails of the images on a page, by index; each image is read once."""

    def __init__(self, images):
        super().__init__()
        self._images = images

    def __missing__(self, index):
        self[index] = thumbnail(self._images[int(index)], _THUMBNAIL_PIXELS)
        return self[index]

    def uri(self, index, pixels=_THUMBNAIL_PIXELS):
        """The thumbnail of an image as a data URI."""
        return png_uri(thumbnail(self[index], pixels))


class _SomeThumbnails:
    """Some of the thumbnails, indexed from 0."""

    def __init__(self, thumbnails, chosen):
        self._thumbnails, self._chosen = thumbnails, chosen

    def __getitem__(self, position):
        return self._thumbnails[self._chosen[position]]


def _check_comparable(runs):
    """Raises if the runs were not evaluated on the same images."""
    first = runs[0]
    for run in runs[1:]:
        if len(run.images) != len(first.images) or not np.array_equal(run.labels, first.labels):
            raise ValueError(
                "Runs in one report must be evaluated on the same images; the "
                f"{len(run.images)} images of {run.name!r} differ in number or labels from the "
                f"{len(first.images)} of {first.name!r}."
            )


def _notes(runs):
    """Pairs of a run's name and a note; the name is empty if every run has the note."""
    shared = [note for note in runs[0].notes if all(note in run.notes for run in runs[1:])]
    own = [(run.name, note) for run in runs for note in run.notes if note not in shared]
    return [("" if len(runs) > 1 else runs[0].name, note) for note in shared] + own


def _metrics_table(runs):
    """The metrics in columns, rows of a name, metrics and intervals, and the best texts."""
    keys = dict.fromkeys(key for run in runs for key in run.metrics)
    shares = [key for key in keys if is_share(key)]
    others = [key for key in keys if key not in shares and key not in _COUNTS]
    counts = [key for key in _COUNTS if any(run.metrics.get(key) for run in runs)]
    rows = []
    for name, measured in (pair for run in runs for pair in run.baselines.items()):
        if (name, *measured) not in rows:  # runs may share them
            rows.append((name, *measured))
    rows += [(run.name, run.metrics, run.intervals) for run in runs]
    highest = {key: max(metrics.get(key, -np.inf) for _, metrics, _ in rows) for key in shares}
    best = {key: _shown(key, value) for key, value in highest.items() if len(rows) > 1}
    return {"columns": [*shares, *others, *counts], "rows": rows, "best": best}


def _shown(key, value):
    """A value of a metric as text."""
    if value is None:
        return "–"
    if is_share(key):
        return f"{100 * value:.2f}"
    return f"{value:,}" if key in _COUNTS else f"{value:.4g}"


def _prefixes(runs):
    """The metrics in columns, and rows of a run, a dimension, metrics and intervals."""
    rows = [(run.name, dim, *of) for run in runs for dim, of in run.by_dim.items()]
    return {"columns": list(filter(is_share, rows[0][2])), "rows": rows} if rows else None


def _overlays(runs, order, thumbnails):
    """Rows of tinted pictures for the runs with pooling weights, and the spread of the weights."""
    weighted = [run for run in runs if run.pooling_weights is not None]
    indices = _with_maps(order, [run.pooling_weights for run in weighted])
    if not weighted or not indices:
        return None
    rows, spreads = [("Image", [thumbnails.uri(i) for i in indices])], []
    for run in weighted:
        pictures = [overlay_groups(thumbnails[i], run.pooling_weights[i]) for i in indices]
        for number, row in enumerate(zip(*pictures, strict=True), start=1):
            name = run.name if len(pictures[0]) == 1 else f"{run.name}, group {number}"
            rows.append((name, [png_uri(picture) for picture in row]))
        spread = weight_spread(np.stack(list(run.pooling_weights.values())))
        spreads.append((run.name, spread, len(run.pooling_weights)))
    return {
        "rows": rows,
        "indices": indices,
        "spreads": spreads,
        "near_average": any(spread["std"] < NEAR_AVERAGE for _, spread, _ in spreads),
    }


def _with_maps(order, maps):
    """The first images for which all runs have maps."""
    return [i for i in order if all(i in run_maps for run_maps in maps)][:_OVERLAYS]


def _correlations(runs, order):
    """Name and figure of each run that has correlations with prototypes."""
    figures = []
    for run in runs:
        if run.correlations is not None:
            indices = _with_maps(order, [run.correlations])
            maps = np.stack([run.correlations[i] for i in indices])
            figure = correlation_maps([run.images[i] for i in indices], maps)
            figures.append((run.name, Markup(inline_svg(figure))))
    return figures


def _gallery(runs, order):
    """Chosen queries, each with the name of every run and its neighbours with distances."""
    labels = runs[0].labels
    classes, counts = np.unique(labels, return_counts=True)
    candidates = order[np.isin(labels[order], classes[counts > 1])][:_CANDIDATES]
    if not len(candidates):
        return []
    k = min(_NEIGHBOURS, len(labels) - 1)
    found = [ExactSearch(run.embeddings)(run.embeddings[candidates], k, candidates) for run in runs]
    hits = np.array([labels[indices[:, 0]] == labels[candidates] for indices, _ in found])
    return [
        (
            candidates[row],
            [
                (run.name, list(zip(indices[row], distances[row], strict=True)))
                for run, (indices, distances) in zip(runs, found, strict=True)
            ],
        )
        for row in _telling_queries(hits, _QUERIES)
    ]


def _maps(runs, thumbnails):
    """One figure per run with its embeddings on a plane, and their legend."""
    first = runs[0]
    chosen = _few_classes(first.labels)
    labels = first.labels[chosen]
    examples = np.unique(labels, return_index=True)[1]
    drawn = np.argsort(labels, kind="stable")  # the order in which the map draws its points
    titles = [_title(first, index) for index in chosen[drawn]]
    figures = []
    for run in runs:
        points = project(run.embeddings[chosen])
        figure = embedding_map(points, labels, _SomeThumbnails(thumbnails, chosen))
        figures.append((run.name, Markup(_with_titles(inline_svg(figure), titles))))
    return {
        "figures": figures,
        "legend": [
            (
                first.class_of(index),
                Markup(inline_svg(class_marker(position))),
                thumbnails.uri(index, _CHIP_PIXELS),
            )
            for position, index in enumerate(chosen[examples])
        ],
        "num_points": len(chosen),
        "method": "PCA" if len(chosen) < FEWEST_FOR_TSNE else "t-SNE",
    }


def _title(run, index):
    """The text that a point of a map shows under the mouse."""
    return " · ".join(filter(None, (run.class_of(index), run.path(index))))


def _with_titles(svg, titles):
    """Gives each point of a map's SVG, a `use` element, its title."""
    remaining = iter(titles)
    return re.sub(
        r"<use ([^>]*)/>",
        lambda point: f"<use {point[1]}><title>{escape(next(remaining))}</title></use>",
        svg,
    )
