"""Thumbnails of image files, for pages."""

from pathlib import Path

from gsp_tf._typing import PathLike
from gsp_tf.data import UnreadableImageError, read_image
from gsp_tf.visual import TILE_PIXELS, Tile, array_tile


def image_tile(path: PathLike) -> Tile:
    """The thumbnail of an image file, or the reason why there is none.

    Args:
        path: image file; it may be missing or damaged.

    Example:
        >>> image_tile("gone.png").problem
        'there is no such file'
    """
    path = str(path)
    try:
        image = read_image(path, min_side=2 * TILE_PIXELS)
    except UnreadableImageError as error:
        return Tile(path, Path(path).name, None, error.reason)
    return array_tile(image, path)._replace(link=Path(path).absolute().as_uri())
