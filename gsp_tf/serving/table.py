"""Indexes and neighbours as tables in the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gsp_tf.serving.recall import describe_recall


def print_index(index):
    """Print what an index is.

    Args:
        index: `Index`.
    """
    metadata = index.metadata
    vectors, items = (metadata["files"][name]["bytes"] for name in ("vectors", "items"))
    print(
        f"{index.path}: {len(index):,} images, {metadata['kind']}, {metadata['metric']}; "
        f"{vectors + items:,} bytes ({vectors:,} of vectors); {describe_recall(metadata)}"
    )


def print_neighbours(neighbours, image):
    """Print what a search found.

    Args:
        neighbours: list of `Neighbour`.
        image: image file that was searched.
    """
    table = Table(title=Text(f"Nearest to {_printable(image)}"))
    for name in ("rank", "distance"):
        table.add_column(name, justify="right")
    for name in ("label", "path"):
        table.add_column(name, overflow="fold")
    for found in neighbours:
        label = "–" if found.label is None else _printable(found.label)
        cells = [str(found.rank), f"{found.distance:.4f}", label, _printable(found.path)]
        table.add_row(*map(Text, cells))
    Console().print(table)


def _printable(text):
    """A text without what a terminal would take for a command."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
