"""Attention maps of groups drawn over the image they look at."""

import numpy as np

from gsp_tf.visual.images import thumbnail
from gsp_tf.visual.overlay import overlay_weights
from gsp_tf.visual.style import INK, transparent_figure

CELL_INCHES = 0.85
PITCH = 1.05
GROUP_PITCH = 2.3
FIRST_COLUMN = 0.9
THUMBNAIL_PIXELS = 112


def overlay_groups(image, maps):
    """Tints an image once for each group by how far its attention is from looking everywhere alike.

    Every map is resized bilinearly to the image, and coloured as `overlay_weights` colours pooling
    weights. "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (Xu et
    al.), eqs. 9 and 10.

    Args:
        image: uint8 `(H, W, 1)` or `(H, W, 3)`; its luminance is shown.
        maps: non-negative `(h, w, groups)`, such as an image's `AttentiveGrouping.attention_maps`.

    Returns:
        uint8 `(groups, H, W, 3)`.

    Raises:
        ValueError: for another kind of image, or maps that are not finite, non-negative
            `(h, w, groups)` with positive sums.

    Example:
        >>> image = np.full((4, 4, 1), 100, np.uint8)
        >>> pictures = overlay_groups(image, np.full((2, 2, 3), 0.25))
        >>> pictures.shape, pictures[0, 0, 0].tolist()
        ((3, 4, 4, 3), [100, 100, 100])
    """
    maps = np.asarray(maps)
    if maps.ndim != 3:
        raise ValueError(f"maps must be (h, w, groups); received shape {maps.shape}.")
    return np.stack([overlay_weights(image, group) for group in np.moveaxis(maps, -1, 0)])


def strongest_images(maps, count=12):
    """The images in which each group looks most at one place.

    "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (Xu et al.),
    section 4.4, picks the 12 attention maps "containing the top attentive weights" of each group.

    Args:
        maps: floats `(N, h, w, groups)`, such as `AttentiveGrouping.attention_maps` of N images.
        count: images a group.

    Returns:
        integers `(groups, count)`, indices of images by the largest value of their map, that of the
        largest one first; of fewer than `count` images all of them.

    Raises:
        ValueError: if the maps are not `(N, h, w, groups)`.

    Example:
        >>> maps = np.array([[[0.5, 0.1]], [[0.2, 0.9]], [[0.3, 0.0]]])[:, None]
        >>> strongest_images(maps, count=2).tolist()
        [[0, 2], [1, 0]]
    """
    maps = np.asarray(maps)
    if maps.ndim != 4:
        raise ValueError(f"maps must be (N, h, w, groups); received shape {maps.shape}.")
    return np.argsort(-maps.max(axis=(1, 2)), axis=0, kind="stable")[:count].T


def group_gallery(images, maps, count=12):
    """Draws for each group the images in which it looks most at one place, and where it looks.

    "Towards Improved and Interpretable Deep Metric Learning via Attentive Grouping" (Xu et al.),
    Figs. 3 and 4. The images of a group are those of `strongest_images`; below each stands its map,
    coloured as `overlay_groups` does.

    Args:
        images: uint8 `(N, H, W, 1)` or `(N, H, W, 3)`.
        maps: non-negative floats `(N, h, w, groups)`, such as `attention_maps` or `channel_maps` of
            a grouping layer.
        count: images a group.

    Returns:
        matplotlib Figure, two rows of pictures a group.

    Raises:
        ValueError: as `overlay_groups`, or if the maps are not `(N, h, w, groups)` of the images.

    Example:
        >>> images = np.zeros((3, 8, 8, 1), np.uint8)
        >>> maps = np.random.default_rng(0).dirichlet(np.ones(4), (3, 2)).transpose(0, 2, 1)
        >>> figure = group_gallery(images, maps.reshape(3, 2, 2, 2), count=2)
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['group 1', 'group 2']
    """
    maps = np.asarray(maps)
    chosen = strongest_images(maps, count)
    if len(maps) != len(images):
        raise ValueError(f"maps must be of the {len(images)} images; received {len(maps)} maps.")
    side = images.shape[1] / images.shape[2]
    width, height = FIRST_COLUMN + chosen.shape[1] * PITCH, len(chosen) * GROUP_PITCH * side
    figure = transparent_figure(width * CELL_INCHES, height * CELL_INCHES)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    for group, indices in enumerate(chosen):
        top = group * GROUP_PITCH * side
        label = f"group {group + 1}"
        axes.text(0.05, top + PITCH * side, label, color=INK, fontsize=8, va="center")
        for column, index in enumerate(indices):
            picture = thumbnail(images[index], THUMBNAIL_PIXELS)
            (overlay,) = overlay_groups(picture, maps[index, ..., group, None])
            left = FIRST_COLUMN + column * PITCH
            for row, shown in enumerate((picture, overlay)):
                y = top + row * PITCH * side
                extent = left, left + 1, y + side, y
                axes.imshow(shown, extent=extent, aspect="auto", interpolation="none")
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure
