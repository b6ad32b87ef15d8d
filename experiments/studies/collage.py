"""GAP and GSP on collages, beside the labelled tile alone (GSP paper, Fig. 3b).

Takes the runs of the study small_collage that are in `runs`. The table has retrieval on the test
classes, in percent, and how much of the pooling weight falls on the labelled tile, with classes of
training and with classes never seen.
"""

import numpy as np
import pictures
from matplotlib.patches import Rectangle
from sweep import (
    HERE,
    TRAINING,
    UNSEEN,
    opened,
    recipe_of,
    retrieval_rows,
    titled_sweep,
    weights_of,
)
from sweeps import GSP

from gsp_tf.evaluation import foreground_share
from gsp_tf.visual import HIT, INK, overlay_weights, transparent_figure

POOLED = ["--pooling.name=gsp", *GSP]
SHOWN = 4


def variants(recipe):
    """The runs by title; the tile alone is as large as one of a collage."""
    data = recipe_of(recipe, []).data
    tile = f"--data.image_size={data.image_size // data.collage.grid}"
    alone = ["--pooling.name=gap", "--data.collage.grid=1", tile]
    return {
        "GAP": ("small_collage_pnca-gap", ["--pooling.name=gap"]),
        "GSP": ("small_collage_pnca-gsp", POOLED),
        "GSP + zero-shot": ("small_collage_pnca-gsp-zs", [*POOLED, "--zero_shot.weight=0.1"]),
        "GAP, tile alone": ("small_collage_pnca-alone", alone),
    }


def study(
    recipe: tuple[str, ...] = (str(HERE / "small_collage.yaml"),),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
):
    """Trains what is missing and measures."""
    return measured(titled_sweep(recipe, variants(recipe), seeds, runs, jobs))


def measured(folders):
    """Rows, and the picture of some collages of the first seed above the numbers."""
    rows, shown = retrieval_rows(folders), {TRAINING: {}, UNSEEN: {}}
    first = min(seed for _, seed in folders)
    for (variant, seed), recipe, splits, embedder in opened(folders):
        for name, images in ((TRAINING, splits.train), (UNSEEN, splits.test)):
            pixels, weights = weights_of(embedder, recipe, images)
            masks = images.foreground_masks()
            share = foreground_share(weights, masks).mean()
            rows.append((variant, seed, f"weight on the tile, {name}", share))
            if recipe.data.collage.grid > 1 and seed == first:
                chosen = np.linspace(0, len(images) - 1, SHOWN).astype(int)
                shown[name][variant] = pixels[chosen], weights[chosen], masks[chosen]
    return rows, {"collage": _picture(rows, shown)}


def _picture(rows, shown):
    figure = transparent_figure(8.4, 5.8)
    figure.set_layout_engine("constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[2, 1])
    for part, (name, by_variant) in zip(above.subfigures(1, 2), shown.items(), strict=True):
        part.suptitle(name, color=INK, fontsize=10)
        panels = part.subplots(len(by_variant), SHOWN, squeeze=False)
        for line, (variant, drawn) in zip(panels, by_variant.items(), strict=True):
            line[0].set_ylabel(variant, color=INK, fontsize=8)
            for axes, image, weights, mask in zip(line, *drawn, strict=True):
                _draw_collage(axes, image, weights, mask)
    names, quantities = (
        list(dict.fromkeys(column)) for column in list(zip(*rows, strict=True))[::2]
    )
    for axes, quantity in zip(below.subplots(1, len(quantities)), quantities, strict=True):
        points = {
            variant: [(place, v) for name, _, q, v in rows if (name, q) == (variant, quantity)]
            for place, variant in enumerate(names)
        }
        title = f"{quantity} (%)" if "@" in quantity else quantity.replace(", ", ",\n")
        pictures.draw_dots(axes, points, title)
        axes.set(xlim=(-0.6, len(names) - 0.4), xticks=[])
    pictures.draw_legend(below, axes)
    return figure


def _draw_collage(axes, image, weights, mask):
    """A collage tinted by its pooling weights, the labelled tile framed."""
    axes.imshow(overlay_weights(image, weights))
    ((row, column),) = np.argwhere(mask)
    height, width = np.array(image.shape[:2]) / mask.shape
    corner = column * width - 0.5, row * height - 0.5
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=HIT, linewidth=1.5))
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
