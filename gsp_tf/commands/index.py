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
        "--replace",
        type=str | None,
        help="Add the images of this folder of embed in the place of those of the same paths.",
    )
    arguments.add_argument(
        "--delete",
        type=str,
        nargs="+",
        default=[],
        help="Remove images by the paths of their files; with --add or --replace in one step.",
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
    from gsp_tf.serving import Index, build_index, verify_index

    changes = [options.add, options.replace, options.delete or None]
    changes = [change for change in changes if change is not None]
    if options.verify:
        if changes or options.out or options.kind:
            raise ValueError("--verify takes an index and no other option.")
        count = verify_index(options.folder).count
        print(f"{options.folder}: {counted(count, 'image')}; the files have their checksums")
        return 0
    if not changes:
        index = build_index(options.folder, options.out, options.kind)
    else:
        if options.out is not None or options.kind is not None:
            raise ValueError("--out and --kind are for building an index, not for changing one.")
        if options.add is not None and options.replace is not None:
            raise ValueError("Give --add or --replace, not both; --replace adds new images too.")
        index = Index(options.folder)
        added = options.add if options.replace is None else options.replace
        index.change(added, options.delete, replace_known=options.replace is not None)
    metadata = index.metadata
    vectors = sum(segment.vectors.bytes for segment in metadata.segments)
    print(
        f"{index.path}: {counted(len(index), 'image')}, {metadata.kind}, {metadata.metric}; "
        f"{sum(file.bytes for file in metadata.files):,} bytes ({vectors:,} of vectors); "
        f"{metadata.recall}"
    )
    return 0
