"""Trained models in use: export, embedding of images, search, and decisions by thresholds."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.serving.calibration import calibrate
    from gsp_tf.serving.cleaning import (
        DuplicateDistance,
        Duplicates,
        LabelErrors,
        calibrate_on_copies,
        find_duplicates,
        find_label_errors,
    )
    from gsp_tf.serving.embedding import (
        BatchEmbedder,
        Collection,
        EmbeddingsFolder,
        RunModel,
        Shard,
        embed_collection,
        embed_images,
    )
    from gsp_tf.serving.export import (
        ExportMetadata,
        export_run,
        from_pretrained,
        save_pretrained,
        verify_export,
    )
    from gsp_tf.serving.image_table import ImageTable
    from gsp_tf.serving.index import (
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
    from gsp_tf.serving.labelled import LabelledEmbeddings, labelled_embeddings
    from gsp_tf.serving.pairs import explain_neighbours, pair_pictures
    from gsp_tf.serving.ranked import RankedImages, ranked_images
    from gsp_tf.serving.thresholds import Thresholds, find_thresholds
    from gsp_tf.serving.tiles import image_tile
    from gsp_tf.serving.vector_sources import VectorBlock, VectorSource, vector_source

__all__ = [
    "BatchEmbedder",
    "Collection",
    "ConditionError",
    "DuplicateDistance",
    "Duplicates",
    "EmbeddingsFolder",
    "ExportMetadata",
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
    "export_run",
    "find_duplicates",
    "find_label_errors",
    "find_thresholds",
    "from_pretrained",
    "image_tile",
    "labelled_embeddings",
    "new_index",
    "open_index",
    "pair_pictures",
    "ranked_images",
    "rows_where",
    "save_pretrained",
    "search",
    "search_many",
    "vector_source",
    "verify_export",
    "verify_index",
    "write_neighbours",
]

import_lazily(__name__)
