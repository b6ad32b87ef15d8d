"""`gsp-tf search`: the neighbours of images."""

import os
from pathlib import Path

from gsp_tf.commands.parsers import command_parser, require_run

HELP = "Find the images nearest to given images."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Find the images of an index that are nearest to an image, or to each of several."
    )
    arguments.add_argument("run", type=str, help="Run folder.")
    arguments.add_argument("images", type=str, nargs="+", help="Image files.")
    arguments.add_argument(
        "--index", type=str | None, help="What index wrote; null is the folder index in the run."
    )
    arguments.add_argument("--k", type=int, default=10, help="Number of neighbours of each.")
    arguments.add_argument(
        "--html",
        type=str,
        nargs="?",
        const="",
        default=None,
        help="Write a page with their pictures: this file, or search.html in the run.",
    )
    arguments.add_argument(
        "--mapped",
        type=bool | None,
        help="Leave the vectors on disk; null does so if they are more than the memory there is.",
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    require_run(options.run)
    from gsp_tf import serving
    from gsp_tf._console import counted

    index = serving.open_index(options.run, options.index, options.mapped)
    found = serving.search(options.run, options.images, index, options.k)
    if options.k > len(index):
        print(f"The index holds {counted(len(index), 'image')}, fewer than --k {options.k:,}.")
    for image, neighbours in zip(options.images, found, strict=True):
        _show(neighbours, image)
    if options.html is not None:
        page = options.html or Path(options.run) / "search.html"
        print(f"Page: {serving.write_neighbours(page, options.images, found, index)}")
    return 0


def _show(neighbours, image):
    """Print what a search found, one line each, with the folder that all lie in above."""
    from rich.cells import cell_len, set_cell_size

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
