"""Indexes and neighbours as tables in the terminal."""

import os

from rich.cells import cell_len, set_cell_size

from gsp_tf._console import counted
from gsp_tf.serving.recall import describe_recall


def print_index(index):
    """Print what an index is.

    Args:
        index: `Index`.
    """
    metadata = index.metadata
    vectors, items = (metadata["files"][name]["bytes"] for name in ("vectors", "items"))
    print(
        f"{index.path}: {counted(len(index), 'image')}, {metadata['kind']}, {metadata['metric']}; "
        f"{vectors + items:,} bytes ({vectors:,} of vectors); {describe_recall(metadata)}"
    )


def print_neighbours(neighbours, image):
    """Print what a search found, one line each, with the folder that all lie in above.

    Args:
        neighbours: list of `Neighbour`.
        image: image file that was searched.
    """
    folder = os.path.commonpath([os.path.dirname(found.path) for found in neighbours])
    print(f"Nearest to {_printable(image)}, in {_printable(folder)}:")
    rows = [("rank", "distance", "label", "path")]
    for found in neighbours:
        label = "–" if found.label is None else _printable(found.label)
        path = _printable(os.path.relpath(found.path, folder))
        rows.append((str(found.rank), f"{found.distance:.4f}", label, path))
    ranks, distances, labels = (max(cell_len(row[column]) for row in rows) for column in range(3))
    for rank, distance, label, path in rows:
        print(f"{rank:>{ranks}}  {distance:>{distances}}  {set_cell_size(label, labels)}  {path}")


def _printable(text):
    """A text without what a terminal would take for a command."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
