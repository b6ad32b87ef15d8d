"""Retrieval, verification, clustering and geometry of embeddings.

None of these functions needs a model, and only `covering_radius_curve`, `match_tokens` and
relations of label vectors need a Keras backend.
"""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.evaluation.clustering import clustering_metrics
    from gsp_tf.evaluation.ensemble import ensemble_metrics
    from gsp_tf.evaluation.estimates import Estimate, classes_for_interval
    from gsp_tf.evaluation.exact_search import ExactSearch, nearest_neighbours
    from gsp_tf.evaluation.expansion import (
        LearnedWhitening,
        PCAWhitening,
        augment_database,
        expand_queries,
    )
    from gsp_tf.evaluation.geometry import (
        covering_radius_curve,
        embedding_density,
        embedding_spread,
        hull_overlap,
        spectral_decay,
    )
    from gsp_tf.evaluation.k_reciprocal import KReciprocalSearch
    from gsp_tf.evaluation.label_errors import label_votes
    from gsp_tf.evaluation.near_duplicates import near_duplicate_groups
    from gsp_tf.evaluation.pair_distances import PairDistances
    from gsp_tf.evaluation.prototypes import (
        average_pooling_error,
        foreground_share,
        prototype_partition,
    )
    from gsp_tf.evaluation.reranking import Reranker, reranking_metrics
    from gsp_tf.evaluation.retrieval import (
        RankingMetrics,
        class_wise_map,
        gallery_metrics,
        grouped_recall,
        ranking_metrics,
        retrieval_metrics,
    )
    from gsp_tf.evaluation.search_space import distances_of_pairs
    from gsp_tf.evaluation.thresholds import (
        ThresholdConsistency,
        calibrate_thresholds,
        conformal_threshold,
        opis,
    )
    from gsp_tf.evaluation.transport_matching import TokenSets, match_tokens, rerank_by_transport
    from gsp_tf.evaluation.verification import open_set_identification, verification_metrics
    from gsp_tf.evaluation.zero_shot import zero_shot_prediction

if TYPE_CHECKING:  # what other packages use, and no user does
    from gsp_tf.evaluation._vectors import (
        checked_embeddings,
        checked_labels,
        truncated,
        unit_vectors,
    )
    from gsp_tf.evaluation.estimates import intervals
    from gsp_tf.evaluation.exact_search import all_but
    from gsp_tf.evaluation.label_errors import LabelVotes
    from gsp_tf.evaluation.near_duplicates import joined_groups
    from gsp_tf.evaluation.reranking import RERANKINGS, Reranked
    from gsp_tf.evaluation.search_space import Metric, SearchSpace, corrected_scores, flat_search

__all__ = [
    "Estimate",
    "ExactSearch",
    "KReciprocalSearch",
    "LearnedWhitening",
    "PCAWhitening",
    "PairDistances",
    "RankingMetrics",
    "Reranker",
    "ThresholdConsistency",
    "TokenSets",
    "augment_database",
    "average_pooling_error",
    "calibrate_thresholds",
    "class_wise_map",
    "classes_for_interval",
    "clustering_metrics",
    "conformal_threshold",
    "covering_radius_curve",
    "distances_of_pairs",
    "embedding_density",
    "embedding_spread",
    "ensemble_metrics",
    "expand_queries",
    "foreground_share",
    "gallery_metrics",
    "grouped_recall",
    "hull_overlap",
    "label_votes",
    "match_tokens",
    "near_duplicate_groups",
    "nearest_neighbours",
    "open_set_identification",
    "opis",
    "prototype_partition",
    "ranking_metrics",
    "rerank_by_transport",
    "reranking_metrics",
    "retrieval_metrics",
    "spectral_decay",
    "verification_metrics",
    "zero_shot_prediction",
]

import_lazily(__name__)
