"""Trained models in use: embedding of images, search, decisions by thresholds, and cleaning."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.search.cleaning.duplicates import find_duplicates
    from gsp_tf.search.cleaning.wrong_labels import find_label_errors
    from gsp_tf.search.collection import BatchEmbedder, embed_collection
    from gsp_tf.search.embed import embed_images
    from gsp_tf.search.embedder import RunModel
    from gsp_tf.search.embeddings import Embeddings
    from gsp_tf.search.explore.server import explore_app, explore_run
    from gsp_tf.search.index.build import build_index, change_index, verify_index
    from gsp_tf.search.index.compare import compare_indexes
    from gsp_tf.search.index.image_index import Index
    from gsp_tf.search.index.neighbours import Neighbour, open_index, search, search_many
    from gsp_tf.search.pages import write_neighbours
    from gsp_tf.search.thresholds import Thresholds, calibrate

if TYPE_CHECKING:  # what commands, gsp_tf.export and benchmarks use, and no user does
    from gsp_tf.search._embedded import EmbeddingsFolder
    from gsp_tf.search._ranked import ranked_images
    from gsp_tf.search.embeddings import is_index, metric_of, read_labelled
    from gsp_tf.search.index._vector_index import VectorIndex, choose_effort, exact_neighbours
    from gsp_tf.search.index.neighbours import excluded_by
    from gsp_tf.search.thresholds import find_thresholds, thresholds_path

__all__ = [
    "BatchEmbedder",
    "Embeddings",
    "Index",
    "Neighbour",
    "RunModel",
    "Thresholds",
    "build_index",
    "calibrate",
    "change_index",
    "compare_indexes",
    "embed_collection",
    "embed_images",
    "explore_app",
    "explore_run",
    "find_duplicates",
    "find_label_errors",
    "open_index",
    "search",
    "search_many",
    "verify_index",
    "write_neighbours",
]

import_lazily(__name__)
