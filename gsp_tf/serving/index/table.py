"""Indexes and neighbours as tables in the terminal."""

import os
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from gsp_tf._console import counted
from gsp_tf._typing import PathLike
from gsp_tf.serving.index.image_index import Index

if TYPE_CHECKING:  # it imports TensorFlow
    from gsp_tf.serving.index.neighbours import Neighbour


def print_index(index: Index) -> None:
    """Prints what an index is."""
    metadata = index.metadata
    vectors = sum(segment.vectors.bytes for segment in metadata.segments)
    print(
        f"{index.path}: {counted(len(index), 'image')}, {metadata.kind}, {metadata.metric}; "
        f"{sum(file.bytes for file in metadata.files):,} bytes ({vectors:,} of vectors); "
        f"{metadata.recall}"
    )


def print_neighbours(neighbours: "list[Neighbour]", image: PathLike) -> None:
    """Prints what a search found, one line each, with the folder that all lie in above.

    Args:
        neighbours: What `search` gave for one image.
        image: Image file that was searched.
    """
    folder = os.path.commonpath([os.path.dirname(found.path) for found in neighbours])
    print(f"Nearest to {_printable(str(image))}, in {_printable(folder)}:")
    rows = [("rank", "distance", "label", "path")]
    for found in neighbours:
        label = "–" if found.label is None else _printable(found.label)
        path = _printable(os.path.relpath(found.path, folder))
        rows.append((str(found.rank), f"{found.distance:.4f}", label, path))
    ranks, distances, labels = (max(cell_len(row[column]) for row in rows) for column in range(3))
    for rank, distance, label, path in rows:
        print(f"{rank:>{ranks}}  {distance:>{distances}}  {set_cell_size(label, labels)}  {path}")


def _printable(text: str) -> str:
    """A text without what a terminal would take for a command."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
