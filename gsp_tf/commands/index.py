"""`gsp-tf index`: build, change or verify an index of embeddings."""

from typing import Literal


def command(
    folder: str,
    *,
    out: str | None = None,
    kind: Literal["exact", "ivf_sq8", "ivf_pq"] | None = None,
    add: str | None = None,
    replace: str | None = None,
    delete: list[str] = (),
    verify: bool = False,
):
    """Build, change or verify a nearest-neighbour index of embeddings.

    Args:
        folder: Folder that embed wrote; with --add, --replace, --delete or --verify the index.
        out: Folder to write; null is the folder index in the run.
        kind: exact, or compressed; null is exact up to 100,000 images, ivf_sq8 up to 5,000,000,
            ivf_pq above.
        add: Add the images of this folder of embed.
        replace: Add the images of this folder of embed, and remove older ones with the same paths.
        delete: Remove images by their file paths; with --add or --replace in one step.
        verify: Compare the files of the index with their checksums, and change nothing.
    """
    from gsp_tf._console import counted
    from gsp_tf.serving import Index, build_index, verify_index

    changes = [add, replace, delete or None]
    changes = [change for change in changes if change is not None]
    if verify:
        if changes or out or kind:
            raise ValueError("--verify takes an index and no other option.")
        count = verify_index(folder).count
        print(f"{folder}: {counted(count, 'image')}; the files have their checksums")
        return
    if not changes:
        index = build_index(folder, out, kind)
    else:
        if out is not None or kind is not None:
            raise ValueError("--out and --kind are for building an index, not for changing one.")
        if add is not None and replace is not None:
            raise ValueError("Give --add or --replace, not both; --replace adds new images too.")
        index = Index(folder)
        added = add if replace is None else replace
        index.change(added, delete, replace_known=replace is not None)
    metadata = index.metadata
    vectors = sum(segment.vectors.bytes for segment in metadata.segments)
    print(
        f"{index.path}: {counted(len(index), 'image')}, {metadata.kind}, {metadata.metric}; "
        f"{sum(file.bytes for file in metadata.files):,} bytes ({vectors:,} of vectors); "
        f"{metadata.recall}"
    )
