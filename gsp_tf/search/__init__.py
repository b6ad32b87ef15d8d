"""Trained models in use: embedding of images, search, decisions by thresholds, and cleaning."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.search.cleaning.altered_copies import DuplicateDistance, calibrate_on_copies
    from gsp_tf.search.cleaning.duplicates import Duplicates, find_duplicates
    from gsp_tf.search.cleaning.wrong_labels import LabelErrors, find_label_errors
    from gsp_tf.search.collection import BatchEmbedder, Collection, embed_collection
    from gsp_tf.search.embed import embed_images
    from gsp_tf.search.embedded import EmbeddingsFolder
    from gsp_tf.search.embedder import RunModel
    from gsp_tf.search.embeddings import Embeddings, is_index
    from gsp_tf.search.explore.server import explore_app, explore_run
    from gsp_tf.search.index.build import build_index, change_index, verify_index
    from gsp_tf.search.index.compare import IndexComparison, MeasuredIndex, compare_indexes
    from gsp_tf.search.index.image_index import Index, PrefixIndex
    from gsp_tf.search.index.neighbours import Neighbour, Searches, open_index, search, search_many
    from gsp_tf.search.index.vector_index import (
        VectorIndex,
        choose_effort,
        exact_neighbours,
        new_index,
    )
    from gsp_tf.search.index.where import ConditionError, rows_where
    from gsp_tf.search.pages import image_tile, write_neighbours
    from gsp_tf.search.pairs import explain_neighbours, pair_pictures
    from gsp_tf.search.ranked import RankedImages, ranked_images
    from gsp_tf.search.tables import ImageTable
    from gsp_tf.search.thresholds import Thresholds, calibrate, find_thresholds, thresholds_path

__all__ = [
    "BatchEmbedder",
    "Collection",
    "ConditionError",
    "DuplicateDistance",
    "Duplicates",
    "Embeddings",
    "EmbeddingsFolder",
    "ImageTable",
    "Index",
    "IndexComparison",
    "LabelErrors",
    "MeasuredIndex",
    "Neighbour",
    "PrefixIndex",
    "RankedImages",
    "RunModel",
    "Searches",
    "Thresholds",
    "VectorIndex",
    "build_index",
    "calibrate",
    "calibrate_on_copies",
    "change_index",
    "choose_effort",
    "compare_indexes",
    "embed_collection",
    "embed_images",
    "exact_neighbours",
    "explain_neighbours",
    "explore_app",
    "explore_run",
    "find_duplicates",
    "find_label_errors",
    "find_thresholds",
    "image_tile",
    "is_index",
    "new_index",
    "open_index",
    "pair_pictures",
    "ranked_images",
    "rows_where",
    "search",
    "search_many",
    "thresholds_path",
    "verify_index",
    "write_neighbours",
]

import_lazily(__name__)
