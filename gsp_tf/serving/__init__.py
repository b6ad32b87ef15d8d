"""Trained models in use: exports, embeddings of images, and the search among them."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.serving.embedding import (
        BatchEmbedder,
        Collection,
        EmbeddingsFolder,
        RunModel,
        embed_collection,
        embed_images,
    )
    from gsp_tf.serving.export import export_run
    from gsp_tf.serving.export_metadata import verify_export
    from gsp_tf.serving.index import (
        Index,
        Neighbour,
        build_index,
        open_index,
        print_index,
        print_neighbours,
        search,
        verify_index,
        write_neighbours,
    )

__all__ = [
    "BatchEmbedder",
    "Collection",
    "EmbeddingsFolder",
    "Index",
    "Neighbour",
    "RunModel",
    "build_index",
    "embed_collection",
    "embed_images",
    "export_run",
    "open_index",
    "print_index",
    "print_neighbours",
    "search",
    "verify_export",
    "verify_index",
    "write_neighbours",
]

import_lazily(__name__)
