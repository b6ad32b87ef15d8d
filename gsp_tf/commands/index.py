"""`gsp-tf index`: an index of embeddings, built, changed or verified."""

from typing import Literal

from gsp_tf.commands.parsers import command_parser

HELP = "Build or change an index of embeddings."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Build a nearest-neighbour index of embeddings, change one or verify one."
    )
    arguments.add_argument(
        "folder", type=str, help="What embed wrote; with --add, --delete or --verify the index."
    )
    arguments.add_argument(
        "--out", type=str | None, help="Folder to write; null is the folder index in the run."
    )
    arguments.add_argument(
        "--kind",
        type=Literal["exact", "ivf_sq8", "ivf_pq"] | None,
        help="exact, or compressed; null is exact up to 100,000 images, ivf_sq8 up to 5,000,000, "
        "ivf_pq above.",
    )
    arguments.add_argument("--add", type=str | None, help="Add the images of this folder of embed.")
    arguments.add_argument(
        "--delete",
        type=str,
        nargs="+",
        default=[],
        help="Remove images by the paths of their files; before anything is added.",
    )
    arguments.add_argument(
        "--verify",
        action="store_true",
        help="Compare the files of the index with their checksums, and change nothing.",
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    from gsp_tf._console import counted
    from gsp_tf.serving import Index, build_index, print_index, verify_index

    if options.verify:
        if options.add is not None or options.delete or options.out or options.kind:
            raise ValueError("--verify takes an index and no other option.")
        count = verify_index(options.folder)["count"]
        print(f"{options.folder}: {counted(count, 'image')}; the files have their checksums")
        return 0
    if options.add is None and not options.delete:
        index = build_index(options.folder, options.out, options.kind)
    else:
        if options.out is not None or options.kind is not None:
            raise ValueError("--out and --kind are for building an index, not for changing one.")
        index = Index(options.folder)
        if options.delete:
            index.delete(options.delete)
        if options.add is not None:
            index.add(options.add)
    print_index(index)
    return 0
