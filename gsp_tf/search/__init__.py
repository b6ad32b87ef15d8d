"""Trained models in use: embedding of images, search, decisions by thresholds, and cleaning."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.search.calibration import calibrate
    from gsp_tf.search.cleaning import (
        DuplicateDistance,
        Duplicates,
        LabelErrors,
        calibrate_on_copies,
        find_duplicates,
        find_label_errors,
    )
    from gsp_tf.search.embedding import (
        BatchEmbedder,
        Collection,
        EmbeddingsFolder,
        RunModel,
        Shard,
        embed_collection,
        embed_images,
    )
    from gsp_tf.search.explore.server import explore_app, explore_run
    from gsp_tf.search.image_table import ImageTable
    from gsp_tf.search.index import (
        ConditionError,
        Index,
        IndexComparison,
        MeasuredIndex,
        Neighbour,
        PrefixIndex,
        Searches,
        VectorIndex,
        build_index,
        change_index,
        choose_effort,
        compare_indexes,
        exact_neighbours,
        new_index,
        open_index,
        rows_where,
        search,
        search_many,
        verify_index,
        write_neighbours,
    )
    from gsp_tf.search.labelled import LabelledEmbeddings, labelled_embeddings
    from gsp_tf.search.pairs import explain_neighbours, pair_pictures
    from gsp_tf.search.ranked import RankedImages, ranked_images
    from gsp_tf.search.thresholds import Thresholds, find_thresholds
    from gsp_tf.search.tiles import image_tile
    from gsp_tf.search.vector_sources import VectorBlock, VectorSource, vector_source

__all__ = [
    "BatchEmbedder",
    "Collection",
    "ConditionError",
    "DuplicateDistance",
    "Duplicates",
    "EmbeddingsFolder",
    "ImageTable",
    "Index",
    "IndexComparison",
    "LabelErrors",
    "LabelledEmbeddings",
    "MeasuredIndex",
    "Neighbour",
    "PrefixIndex",
    "RankedImages",
    "RunModel",
    "Searches",
    "Shard",
    "Thresholds",
    "VectorBlock",
    "VectorIndex",
    "VectorSource",
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
    "labelled_embeddings",
    "new_index",
    "open_index",
    "pair_pictures",
    "ranked_images",
    "rows_where",
    "search",
    "search_many",
    "vector_source",
    "verify_index",
    "write_neighbours",
]

import_lazily(__name__)
