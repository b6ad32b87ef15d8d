"""A self-contained page of pictures in sections."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from gsp_tf._console import show_progress
from gsp_tf._typing import PathLike
from gsp_tf.visual.page_parts import Tile, write_page


class Picture(NamedTuple):
    """A picture on a page.

    Args:
        path: its file.
        caption: a few words below it.
        detail: a line below the caption.
        is_marked: whether it has a frame.

    Example:
        >>> Picture("a.png", "near").is_marked
        False
    """

    path: str
    caption: str
    detail: str = ""
    is_marked: bool = False


class GallerySection(NamedTuple):
    """A section of pictures.

    Args:
        heading: its heading.
        hint: a sentence below the heading, or an empty text.
        pictures: the pictures, made when the section is written.

    Example:
        >>> GallerySection("Group 0", "", [Picture("a.png", "near")]).heading
        'Group 0'
    """

    heading: str
    hint: str
    pictures: Iterable[Picture]


def write_gallery_page(
    path: PathLike,
    title: str,
    summary: str,
    sections: Iterable[GallerySection],
    tile: Callable[[PathLike], Tile],
    total: int,
) -> Path:
    """Writes one HTML page with sections of pictures; it loads nothing from elsewhere.

    Pictures are made and written one at a time.

    Args:
        path: file to write; an existing file is replaced in one step.
        title: the heading.
        summary: text below the heading.
        sections: the sections.
        tile: function from a path to its picture.
        total: number of sections, for the progress bar.

    Returns:
        The path of the page.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     def tile(path):
        ...         return Tile(path, path, None, "there is no such file")
        ...     sections = [GallerySection("Group 0", "", [Picture("a.png", "near")])]
        ...     page = write_gallery_page(f"{folder}/a.html", "Groups", "", sections, tile, 1)
        ...     "Group 0" in page.read_text("utf-8")
        True
    """

    def shown():
        for section in show_progress(sections, "Writing the page", total):
            pictures = ((one, tile(one.path)) for one in section.pictures)
            yield section._replace(pictures=pictures)

    return write_page(path, "gallery.html", title=title, summary=summary, sections=shown())
