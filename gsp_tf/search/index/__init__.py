"""Nearest-neighbour indexes of embedded images, and search in them."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.search.index.batch import Searches, search_many
    from gsp_tf.search.index.build import build_index, verify_index
    from gsp_tf.search.index.change import change_index
    from gsp_tf.search.index.compare import IndexComparison, MeasuredIndex, compare_indexes
    from gsp_tf.search.index.image_index import Index
    from gsp_tf.search.index.kinds import new_index
    from gsp_tf.search.index.neighbours import Neighbour, open_index, search
    from gsp_tf.search.index.page import write_neighbours
    from gsp_tf.search.index.prefix_index import PrefixIndex
    from gsp_tf.search.index.recall import choose_effort, exact_neighbours
    from gsp_tf.search.index.vector_index import VectorIndex
    from gsp_tf.search.index.where import ConditionError, rows_where

__all__ = [
    "ConditionError",
    "Index",
    "IndexComparison",
    "MeasuredIndex",
    "Neighbour",
    "PrefixIndex",
    "Searches",
    "VectorIndex",
    "build_index",
    "change_index",
    "choose_effort",
    "compare_indexes",
    "exact_neighbours",
    "new_index",
    "open_index",
    "rows_where",
    "search",
    "search_many",
    "verify_index",
    "write_neighbours",
]

import_lazily(__name__)
