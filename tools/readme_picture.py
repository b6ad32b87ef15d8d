"""Draws docs/grocery.jpg: photographs of unseen classes, and the nearest others.

python tools/readme_picture.py RUN, with a run on data/grocery, such as that of `gsp-tf adapt
data/grocery --head gsp`. The photographs are of the Grocery Store data set (Klasson, Zhang,
Kjellström, WACV 2019; MIT licence). The query of a class is the first of its photographs.
"""

from pathlib import Path

import numpy as np
from jsonargparse import auto_cli
from matplotlib.figure import Figure

from gsp_tf._files import replacing
from gsp_tf.data import evaluation_image
from gsp_tf.evaluation import nearest_neighbours
from gsp_tf.runs import open_run
from gsp_tf.visual import HIT, MISS

OUT = Path(__file__).parents[1] / "docs/grocery.jpg"


def main(run: str, classes: int = 5, neighbours: int = 6):
    """Draws the picture.

    Args:
        run: run folder.
        classes: number of classes, evenly spaced.
        neighbours: number of neighbours of each query.
    """
    opened = open_run(run)
    found, images = opened.test_embeddings(), opened.splits.test
    size = opened.recipe.data.image_size
    nearest, _ = nearest_neighbours(found.queries, k=neighbours)
    _, first = np.unique(found.query_labels, return_index=True)
    queries = first[np.linspace(0, len(first) - 1, classes).astype(int)]
    figure = Figure((1.05 * (neighbours + 1) + 0.2, 1.05 * classes + 0.25), layout="constrained")
    axes = figure.subplots(classes, neighbours + 1)
    for row, query in zip(axes, queries, strict=True):
        for axis, other in zip(row, (query, *nearest[query]), strict=True):
            axis.imshow(np.uint8(evaluation_image(images, int(other), size)))
            axis.set(xticks=[], yticks=[])
            is_hit = found.query_labels[other] == found.query_labels[query]
            axis.spines[:].set(color=HIT if is_hit else MISS, linewidth=2.5)
        row[0].spines[:].set_visible(False)
    axes[0, 0].set_title("query", fontsize=8, loc="left")
    axes[0, 1].set_title("nearest photographs", fontsize=8, loc="left")
    with replacing(OUT) as temporary:
        figure.savefig(temporary, format="jpeg", dpi=130, pil_kwargs={"quality": 85})


if __name__ == "__main__":
    auto_cli(main, as_positional=True)
