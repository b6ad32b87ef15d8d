"""`gsp-tf index`: an index of embeddings, built, changed or verified."""

from typing import Literal


def command(
    folder: str,
    *,
    out: str | None = None,
    kind: Literal["exact", "ivf_sq8", "ivf_pq"] | None = None,
    add: str | None = None,
    delete: list[str] = (),
    verify: bool = False,
):
    """Build or change an index of embeddings.

    Builds a nearest-neighbour index of embeddings, changes one or verifies one.

    Args:
        folder: What embed wrote; with --add, --delete or --verify the index.
        out: Folder to write; null is the folder index in the run.
        kind: exact, or compressed; null is exact up to 100,000 images, ivf_sq8 up to 5,000,000,
            ivf_pq above.
        add: Add the images of this folder of embed.
        delete: Remove images by the paths of their files; before anything is added.
        verify: Compare the files of the index with their checksums, and change nothing.
    """
    from gsp_tf._console import counted
    from gsp_tf.serving import Index, build_index, print_index, verify_index

    if verify:
        if add is not None or delete or out or kind:
            raise ValueError("--verify takes an index and no other option.")
        count = verify_index(folder)["count"]
        print(f"{folder}: {counted(count, 'image')}; the files have their checksums")
        return
    if add is None and not delete:
        index = build_index(folder, out, kind)
    else:
        if out is not None or kind is not None:
            raise ValueError("--out and --kind are for building an index, not for changing one.")
        index = Index(folder)
        if delete:
            index.delete(delete)
        if add is not None:
            index.add(add)
    print_index(index)
