"""Adding images to an index, and removing them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gsp_tf._console import counted, listed
from gsp_tf._metadata import check_same_model
from gsp_tf._typing import PathLike
from gsp_tf.search.image_table import ImageTable, located
from gsp_tf.search.index._blocks import EmbeddedBlocks, opened_source
from gsp_tf.search.index._segments import Segment, joined_items
from gsp_tf.search.index._tokens import embedded_tables
from gsp_tf.search.index.image_index import Index
from gsp_tf.search.index.prefix_index import PrefixIndex
from gsp_tf.search.vector_sources import VectorSource


def change_index(
    index: Index,
    add: VectorSource | PathLike | None = None,
    delete: Sequence[PathLike] = (),
    replace_known: bool = False,
    table: PathLike | None = None,
) -> None:
    """Removes images from an index and adds those of other embeddings, in one step.

    The change is atomic: even after a failure, the folder holds the index from before or after it.
    If two processes change an index at the same time, one of them is refused.

    Args:
        index: The index, which has the new images afterwards.
        add: Embeddings made with the model of this index, as for `build_index`.
        delete: Paths of image files to remove.
        replace_known: Whether added images replace those of the same paths in the index; if not,
            they are refused.
        table: File with metadata of the added images, as for `build_index`.

    Raises:
        BlockingIOError: If another process is changing the index.
        FileNotFoundError: If there are no embeddings.
        ValueError: If the embeddings have another model or preprocessing, an image to add is
            refused, an image to delete is not in the index or is named twice, the index is a
            `PrefixIndex`, or another process has changed it since it was opened.

    Example:
        >>> change_index(Index("no/such/index"), delete=["a.png"])
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/index is not an index: it has no index.json. ...
    """
    if isinstance(index, PrefixIndex):
        raise ValueError(f"These are prefixes of the index {index.path}; change the index itself.")
    paths = index._items["path"]
    delete = pa.array([located(path) for path in delete], pa.string())
    missing = delete.filter(pc.invert(pc.is_in(delete, paths)))
    if len(missing):
        raise ValueError(
            f"The index {index.path} does not hold {counted(len(missing), 'image')} to delete: "
            f"{listed(missing.to_pylist())}."
        )
    if len(pc.unique(delete)) < len(delete):
        raise ValueError("An image to delete is named twice.")
    metadata, dropped = index.metadata, np.asarray(pc.is_in(paths, delete))
    with index._folder.changing(metadata):
        new = []
        if add is not None:
            columns = None if table is None else ImageTable(table)
            new = [_embedded(index, opened_source(add), columns)]
            metadata = replace(metadata, next_id=metadata.next_id + len(new[0].items))
            known = np.asarray(pc.is_in(paths, new[0].items["path"])) & ~dropped
            if known.any() and not replace_known:
                names = index._items.filter(pa.array(known))["path"].to_pylist()
                raise ValueError(
                    f"The index {index.path} holds {counted(len(names), 'image')} of these "
                    f"already; to replace them, use --replace: {listed(names)}."
                )
            dropped |= known
        kept = [_without(index, segment, index.ids[dropped]) for segment in index._segments]
        # The first segment stays even if empty: it holds the training of a compressed index.
        kept = [s for number, s in enumerate(kept) if not number or len(s.items)]
        joined_items([segment.items for segment in kept + new])  # raises if they do not fit
        index._take(*index._folder.write(metadata, _merged(index, kept + new)))


def _embedded(index, source, table):
    """A new segment with the images of a source."""
    metadata, both = index.metadata, f"{source.name} and the index {index.path}"
    check_same_model(source.model, metadata.model, both)
    dims = source.dim, metadata.embedding_dim or metadata.dim
    if dims[0] != dims[1]:
        raise ValueError(f"{both} do not belong together: the dimensions are {dims}.")
    vectors = index._folder.read(metadata, metadata.segments[0], mapped=True).vectors.emptied()
    dim = None if metadata.embedding_dim is None else metadata.dim
    blocks = EmbeddedBlocks(source, index._space, metadata.next_id, dim=dim, table=table)
    for block in blocks:
        vectors.add(*block)
    tokens = embedded_tables(source.folder, metadata.next_id)
    if index.has_tokens and tokens is None:
        raise ValueError(
            f"The index {index.path} keeps local features, and {source.name} has none; embed its "
            "images with --tokens."
        )
    return Segment(vectors, blocks.items(), tokens if index.has_tokens else None)


def _without(index, segment, ids):
    """The segment without some ids; the same object if it has none of them."""
    has_some = np.isin(segment.items["id"], ids).any()
    return _own(index, segment).without(ids) if has_some else segment


def _merged(index, segments):
    """Merges segments until each has at least twice as many images as the next."""
    while len(segments) > 1 and len(segments[-2].items) < 2 * len(segments[-1].items):
        *segments, first, second = segments
        segments.append(_own(index, first).merged(_own(index, second)))
    return segments


def _own(index, segment):
    """The segment in memory, where it may be changed."""
    if segment.stored is None:
        return segment
    read = index._folder.read(index.metadata, segment.stored, False, codes_mapped=False)
    return replace(read, stored=None)
