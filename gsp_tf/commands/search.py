"""`gsp-tf search`: the neighbours of an image."""

from pathlib import Path

from gsp_tf.commands.parsers import command_parser, existing_run

HELP = "Find the images nearest to an image."


def parser():
    """Its arguments."""
    arguments = command_parser("Find the images of an index that are nearest to an image.")
    arguments.add_argument("run", type=str, help="Run folder.")
    arguments.add_argument("image", type=str, help="Image file.")
    arguments.add_argument(
        "--index", type=str | None, help="What index wrote; null is the folder index in the run."
    )
    arguments.add_argument("--k", type=int, default=10, help="Number of neighbours.")
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
    existing_run(options.run)
    from gsp_tf import serving
    from gsp_tf.serving.table import print_neighbours

    index = serving.open_index(options.run, options.index, options.mapped)
    neighbours = serving.search(options.run, options.image, index, options.k)
    print_neighbours(neighbours, options.image)
    if options.html is not None:
        page = options.html or Path(options.run) / "search.html"
        print(f"Page: {serving.write_neighbours(page, options.image, neighbours, index)}")
    return 0
