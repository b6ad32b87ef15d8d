"""Pictures of embeddings, retrieval, pooling weights and training, and the pages that join them."""

from typing import TYPE_CHECKING

from gsp_tf.lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.visual.attention import group_gallery, overlay_groups, strongest_images
    from gsp_tf.visual.class_hulls import class_hulls
    from gsp_tf.visual.correlation_maps import correlation_maps
    from gsp_tf.visual.curves import training_curves
    from gsp_tf.visual.embedding_map import embedding_map, project
    from gsp_tf.visual.gallery import neighbour_gallery
    from gsp_tf.visual.overlay import overlay_weights
    from gsp_tf.visual.partition_maps import partition_maps
    from gsp_tf.visual.prototypes import attribute_histograms, dominant_prototypes
    from gsp_tf.visual.report import write_report
    from gsp_tf.visual.run_summary import RunSummary
    from gsp_tf.visual.search_page import write_search_page

__all__ = [
    "RunSummary",
    "attribute_histograms",
    "class_hulls",
    "correlation_maps",
    "dominant_prototypes",
    "embedding_map",
    "group_gallery",
    "neighbour_gallery",
    "overlay_groups",
    "overlay_weights",
    "partition_maps",
    "project",
    "strongest_images",
    "training_curves",
    "write_report",
    "write_search_page",
]

import_lazily(__name__)
