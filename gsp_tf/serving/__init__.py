"""Trained models in use: exports, embeddings of images, and the search among them."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.serving.batch_embedder import BatchEmbedder
    from gsp_tf.serving.collection import Collection
    from gsp_tf.serving.embed import embed_images
    from gsp_tf.serving.embed_collection import embed_collection
    from gsp_tf.serving.embeddings_folder import EmbeddingsFolder
    from gsp_tf.serving.export import ExportMetadata, export_run, verify_export
    from gsp_tf.serving.index import Index, build_index, verify_index
    from gsp_tf.serving.run_model import RunModel
    from gsp_tf.serving.search import Neighbour, distance_name, open_index, search, write_neighbours
    from gsp_tf.serving.table import print_index, print_neighbours

__all__ = [
    "BatchEmbedder",
    "Collection",
    "EmbeddingsFolder",
    "ExportMetadata",
    "Index",
    "Neighbour",
    "RunModel",
    "build_index",
    "distance_name",
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
