"""GAP and GSP on collages, beside the labelled tile alone (GSP paper, Fig. 3b).

python experiments/studies/collage.py [--runs FOLDER] [--seeds "[0, 1, 2]"]

Takes the runs that are in the folder, as experiments/small_collage.sh leaves them there, and trains
those that are missing. Writes retrieval on the test classes, in percent, and how much of the
pooling weight falls on the labelled tile, with classes of training and with classes never seen.
"""

import numpy as np
import pictures
import records
from jsonargparse import auto_cli
from matplotlib.patches import Rectangle
from sweep import retrieval_rows, sweep, titled

from gsp_tf.evaluation import foreground_share
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import evaluation_batches, load_splits, place_maps
from gsp_tf.visual import HIT, INK, overlay_weights, transparent_figure

GAP, GSP, ZERO_SHOT, ALONE = "GAP", "GSP", "GSP + zero-shot", "GAP, tile alone"
GSP_OPTIONS = [
    "--pooling.name=gsp",
    "--pooling.transport_ratio=0.25",
    "--pooling.entropy_smoothing=10",
    "--training.adapt_batches=8",
]
VARIANTS = {
    GAP: ("small_collage_pnca-gap", ["--pooling.name=gap"]),
    GSP: ("small_collage_pnca-gsp", GSP_OPTIONS),
    ZERO_SHOT: ("small_collage_pnca-gsp-zs", [*GSP_OPTIONS, "--zero_shot.weight=0.1"]),
    ALONE: ("small_collage_pnca-alone", ["--pooling.name=gap", "--data.collage.grid=1"]),
}
TRAINING, UNSEEN = "training classes", "unseen classes"
SHOWN = 4


def variants(recipe):
    """Options of the runs by name, for `sweep`; the tile alone is as large as one of a collage.

    Args:
        recipe: YAML files of the collage.
    """
    data = load_recipe(recipe).data
    options = dict(VARIANTS.values())
    name = VARIANTS[ALONE][0]
    tile = data.image_size // data.collage.grid
    return {**options, name: [*options[name], f"--data.image_size={tile}"]}


def weights_of(embedder, recipe, images, indices=None):
    """Images `(N, S, S, channels)` and pooling weights `(N, h, w)`, which are uniform for GAP."""
    batches = [batch.numpy() for batch, _ in evaluation_batches(recipe, images, indices)]
    maps = [place_maps(embedder, batch).weights for batch in batches]
    pixels = np.rint(np.concatenate(batches)).astype(np.uint8)
    if maps[0] is None:
        return pixels, np.full((len(pixels), 1, 1), 1.0)
    return pixels, np.concatenate(maps)[..., 0]


def study(folders):
    """Rows of `records.write`, and pictures of the first seed.

    Args:
        folders: dict from `(variant, seed)` to the `RunFolder`, as `VARIANTS` names them.

    Returns:
        rows, and a dict from `TRAINING` and `UNSEEN` to a dict from variant to images, weights and
        masks of `SHOWN` collages, without the variant that has none.
    """
    rows, shown = retrieval_rows(folders), {TRAINING: {}, UNSEEN: {}}
    first = min(seed for _, seed in folders)
    splits = {}
    for (variant, seed), folder in folders.items():
        own = folder.recipe()
        grid = own.data.collage.grid
        if grid not in splits:
            splits[grid] = load_splits(own)
        embedder = folder.learner(compile=False).embedder
        for name, images in ((TRAINING, splits[grid].train), (UNSEEN, splits[grid].test)):
            pixels, weights = weights_of(embedder, own, images)
            masks = images.foreground_masks()
            share = foreground_share(weights, masks).mean()
            rows.append((variant, seed, f"weight on the tile, {name}", share))
            if grid > 1 and seed == first:
                chosen = np.linspace(0, len(images) - 1, SHOWN).astype(int)
                shown[name][variant] = pixels[chosen], weights[chosen], masks[chosen]
    return rows, shown


def picture(rows, shown):
    """Weights over collages of classes of training and never seen, above the numbers."""
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
    quantities = list(dict.fromkeys(quantity for _, _, quantity, _ in rows))
    for axes, quantity in zip(below.subplots(1, len(quantities)), quantities, strict=True):
        points = {
            variant: [(position, v) for name, _, q, v in rows if (name, q) == (variant, quantity)]
            for position, variant in enumerate(VARIANTS)
        }
        title = f"{quantity} (%)" if "@" in quantity else quantity.replace(", ", ",\n")
        pictures.draw_dots(axes, points, title)
        axes.set(xlim=(-0.6, len(VARIANTS) - 0.4), xticks=[])
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


def main(
    recipe: tuple[str, ...] = ("experiments/small_collage.yaml",),
    runs: str = "runs",
    seeds: tuple[int, ...] = (0, 1, 2),
    jobs: int = 1,
    out: str = "experiments/results/studies/collage.csv",
    figure: str = "docs/figures/collage.png",
):
    """GAP and GSP on collages, beside the labelled tile alone.

    Args:
        recipe: YAML files of the collage, with the loss and the budget.
        runs: folder of the run folders `small_collage_NAME-SEED`.
        seeds: seeds of the runs.
        jobs: runs at the same time.
        out: CSV file of the numbers.
        figure: PNG file of the picture.
    """
    trained = sweep(recipe, variants(recipe), seeds, runs, jobs)
    rows, shown = study(titled(trained, VARIANTS))
    records.write(out, rows)
    pictures.save(picture(rows, shown), figure)
    print(records.table(out))


if __name__ == "__main__":
    auto_cli(main, as_positional=False)
