"""Draws docs/grocery.jpg: photographs of unseen classes, where GSP looks, and the nearest others.

python tools/readme_picture.py RUN, with a run of pooling gsp on data/grocery, such as the rung
`block` of `gsp-tf train data/grocery --pooling.name gsp --pooling.transport_ratio 0.15
--pooling.entropy_smoothing 20`. The photographs are of the Grocery Store data set (Klasson, Zhang,
Kjellström, WACV 2019; MIT licence).
"""

from pathlib import Path

import keras
import numpy as np
from jsonargparse import auto_cli
from matplotlib.figure import Figure

from gsp_tf._files import replacing
from gsp_tf.data import evaluation_image
from gsp_tf.evaluation import nearest_neighbours
from gsp_tf.runs import open_run, place_maps
from gsp_tf.visual import HIT, MISS, overlay_weights

OUT = Path(__file__).parents[1] / "docs/grocery.jpg"


QUERIES = {
    "Valio-Vanilla-Yoghurt": 0,
    "Conference": 20,
    "Papaya": 20,
    "Red-Bell-Pepper": 20,
    "Tropicana-Apple-Juice": 20,
}
"""Classes, and which of their photographs is shown."""


def main(run: str, neighbours: int = 6):
    """Draws the picture.

    Args:
        run: run folder.
        neighbours: number of neighbours of each query.
    """
    opened = open_run(run)
    found, images = opened.test_embeddings(), opened.splits.test
    size = opened.recipe.data.image_size
    model = keras.models.load_model(opened.folder.model_path)
    nearest, _ = nearest_neighbours(found.queries, k=neighbours)
    rows = len(QUERIES)
    figure = Figure((1.05 * (neighbours + 2) + 0.2, 1.05 * rows + 0.25), layout="constrained")
    axes = figure.subplots(rows, neighbours + 2)
    for row, (name, number) in zip(axes, QUERIES.items(), strict=True):
        label = images.class_names.index(name)
        query = np.flatnonzero(found.query_labels == label)[number]
        photograph = np.uint8(evaluation_image(images, int(query), size))
        weights = place_maps(model.embedder, photograph[None].astype("float32")).weights
        row[0].imshow(photograph)
        row[1].imshow(overlay_weights(photograph, weights[0, ..., 0]))
        for axis in row[:2]:
            axis.spines[:].set_visible(False)
        for axis, other in zip(row[2:], nearest[query], strict=True):
            axis.imshow(np.uint8(evaluation_image(images, int(other), size)))
            is_hit = found.query_labels[other] == label
            axis.spines[:].set(color=HIT if is_hit else MISS, linewidth=2.5)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    titles = "query", "where GSP looks", "nearest others"
    for axis, title in zip(axes[0], titles, strict=False):
        axis.set_title(title, fontsize=8, loc="left")
    with replacing(OUT) as temporary:
        figure.savefig(temporary, format="jpeg", dpi=130, pil_kwargs={"quality": 85})


if __name__ == "__main__":
    auto_cli(main, as_positional=True)
