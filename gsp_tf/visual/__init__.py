"""Pictures of embeddings, retrieval, pooling weights and training, and the pages that join them."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.visual.attention import group_gallery, overlay_groups, strongest_images
    from gsp_tf.visual.class_hulls import class_hulls
    from gsp_tf.visual.correlation_maps import correlation_maps
    from gsp_tf.visual.curves import training_curves
    from gsp_tf.visual.embedding_map import embedding_map, project
    from gsp_tf.visual.gallery import neighbour_gallery
    from gsp_tf.visual.images import enlarged, inline_svg, png_uri, thumbnail
    from gsp_tf.visual.metric_names import display_name
    from gsp_tf.visual.overlay import NEAR_AVERAGE, color_scale, overlay_weights, weight_spread
    from gsp_tf.visual.partition_maps import partition_maps
    from gsp_tf.visual.prototypes import attribute_histograms, dominant_prototypes
    from gsp_tf.visual.report import write_report
    from gsp_tf.visual.run_summary import RunSummary
    from gsp_tf.visual.search_page import Tile, array_tile, image_tile, write_search_page
    from gsp_tf.visual.selection import class_by_class
    from gsp_tf.visual.style import prototype_colors, transparent_figure
    from gsp_tf.visual.templates import page_template

__all__ = [
    "NEAR_AVERAGE",
    "RunSummary",
    "Tile",
    "array_tile",
    "attribute_histograms",
    "class_by_class",
    "class_hulls",
    "color_scale",
    "correlation_maps",
    "display_name",
    "dominant_prototypes",
    "embedding_map",
    "enlarged",
    "group_gallery",
    "image_tile",
    "inline_svg",
    "neighbour_gallery",
    "overlay_groups",
    "overlay_weights",
    "page_template",
    "partition_maps",
    "png_uri",
    "project",
    "prototype_colors",
    "strongest_images",
    "thumbnail",
    "training_curves",
    "transparent_figure",
    "weight_spread",
    "write_report",
    "write_search_page",
]

import_lazily(__name__)
