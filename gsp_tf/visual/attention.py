"""Attention maps of groups drawn over the image they look at."""

import numpy as np

from gsp_tf.visual.overlay import overlay_weights


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
