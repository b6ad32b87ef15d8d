"""Accuracy of re-ranking against its time and bytes, with transport of local features.

For one trained run, whose pooling has weights (`--run`): plain search, the ways of
`reranking_metrics`, and transport between 8, 16 and 32 local features of two images for several
transport ratios μ and shares of the first distance. Settings should be chosen on the validation
classes (`--split validation`), and the numbers be those of the test classes (the default).
"""

import time
from typing import Literal

import numpy as np
from sweep import embedded

from gsp_tf.evaluation import (
    ExactSearch,
    RankingMetrics,
    Reranked,
    TokenSets,
    match_tokens,
    reranking_metrics,
)
from gsp_tf.runs import Run, TokenModel, evaluation_batches
from gsp_tf.visual import INK, RUN_COLORS, transparent_figure

RATIOS, WEIGHTS = (0.25, 0.5, 0.75, 1.0), (0.0, 0.5)
SMOOTHING, DEPTH = 10.0, 100


def quantities(found):
    """Percent of precision@1 and MAP@R, milliseconds a query and bytes an image."""
    means = found.metrics.means()
    return {
        "P@1": 100 * means["precision_at_1"].value,
        "MAP@R": 100 * means["map_at_r"].value,
        "ms": 1000 * found.seconds / found.metrics.num_queries,
        "bytes": found.bytes_per_image,
    }


def transport_costs(indices, sets, ratio, block=64):
    """Costs `(N, K)` of the transport between each image and others, by index `(N, K)`."""
    costs = []
    for start in range(0, len(indices), block):
        others = indices[start : start + block]
        rows = np.repeat(np.arange(start, start + len(others)), others.shape[1])
        found, _ = match_tokens(sets.take(rows), sets.take(others.ravel()), ratio, SMOOTHING)
        costs.append(found.reshape(others.shape))
    return np.concatenate(costs)


def transport_metrics(embeddings, labels, sets, ratios=RATIOS, weights=WEIGHTS, depth=DEPTH):
    """`Reranked` for each transport ratio and share of the first distance; each of the embeddings
    is a query for the others, and the first `depth` results are ordered again."""
    _, counts = np.unique(labels, return_counts=True)
    k = min(len(labels) - 1, max(depth, counts.max() - 1))
    start = time.perf_counter()
    first, distances = ExactSearch(embeddings)(embeddings, k, exclude=np.arange(len(labels)))
    searched = time.perf_counter() - start
    # Unit vectors: half of the squared distance is 1 - cosine, the cost of tokens.
    costs, found = distances**2 / 2, {}
    for ratio in ratios:
        start = time.perf_counter()
        matched = transport_costs(first[:, :depth], sets, ratio)
        spent = searched + time.perf_counter() - start
        for weight in weights:
            mixed = (1 - weight) * matched + weight * costs[:, :depth]
            order, ranked = np.argsort(mixed, axis=1, kind="stable"), first.copy()
            ranked[:, :depth] = np.take_along_axis(first[:, :depth], order, axis=1)
            metrics = RankingMetrics.of(
                lambda rows, depth, ranked=ranked: (ranked[rows, :depth], None), labels, at=(1,)
            )
            size = 4 * embeddings.shape[1] + sets.bytes_per_image
            found[f"mu {ratio}, weight {weight}"] = Reranked(metrics, spent, size)
    return found


def study(
    run: str,
    split: Literal["test", "validation"] = "test",
    tokens: list[int] = (8, 16, 32),
    limit: int | None = None,
):
    """Measures a run on a set of its classes, on some images of it with `limit`."""
    opened = Run(run)
    images, embedder = getattr(opened.splits, split), opened.learner.embedder
    if limit is not None and limit < len(images):
        chosen = np.random.default_rng(0).choice(len(images), limit, replace=False)
        images = images.subset(np.sort(chosen))
    model = TokenModel(embedder, max(tokens))
    embeddings, labels = embedded(embedder, opened.recipe, images)
    sets = model.embed(evaluation_batches(opened.recipe, images))
    found = reranking_metrics(embeddings, labels, at=(1,))
    for count in sorted({min(count, model.k) for count in tokens}):
        few = TokenSets(*(values[:, :count] for values in sets))
        for name, of_method in transport_metrics(embeddings, labels, few).items():
            found[f"{count} tokens, {name}"] = of_method
    seed = opened.recipe.seed
    return [(name, seed, *q) for name, of in found.items() for q in quantities(of).items()], {}


def draw(values):
    """MAP@R against milliseconds and against bytes."""
    figure = transparent_figure(10, 4)
    figure.set_layout_engine("constrained", wspace=0.06)
    shown = {"ms": "milliseconds per query", "bytes": "bytes per image"}
    for axes, (name, label) in zip(figure.subplots(1, 2, sharey=True), shown.items(), strict=True):
        for variant, row in values.items():
            is_transport = "tokens" in variant
            for seed, value in row["MAP@R"].items():
                axes.plot(row[name][seed], value, "o", color=RUN_COLORS[int(is_transport)])
                if not is_transport:
                    axes.annotate(variant, (row[name][seed], value), fontsize=7, color=INK)
        axes.set(xscale="log", xlabel=label)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("MAP@R (%), transport in the second colour")
    return {"reranking": figure}
