"""`gsp-tf search`: the neighbours of images."""

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
    from gsp_tf.serving import print_neighbours

    index = serving.open_index(options.run, options.index, options.mapped)
    found = serving.search(options.run, options.images, index, options.k)
    if options.k > len(index):
        print(f"The index holds {counted(len(index), 'image')}, fewer than --k {options.k:,}.")
    for image, neighbours in zip(options.images, found, strict=True):
        print_neighbours(neighbours, image)
    if options.html is not None:
        page = options.html or Path(options.run) / "search.html"
        print(f"Page: {serving.write_neighbours(page, options.images, found, index)}")
    return 0
