"""Pictures of embeddings, retrieval, pooling weights and training, and pages that combine them."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.visual._metrics import display_name, percent
    from gsp_tf.visual._pages import (
        TILE_PIXELS,
        Tile,
        array_tile,
        enlarged,
        inline_svg,
        jpeg_uri,
        page_template,
        png_uri,
        thumbnail,
        write_page,
    )
    from gsp_tf.visual._report_page import RunSummary, write_report
    from gsp_tf.visual._style import (
        CLASS_COLORS,
        HIT,
        INK,
        MISS,
        RUN_COLORS,
        prototype_colors,
        run_style,
        transparent_figure,
    )
    from gsp_tf.visual.curves import index_curve, training_curves
    from gsp_tf.visual.galleries import (
        group_gallery,
        neighbour_gallery,
        strongest_images,
        view_gallery,
    )
    from gsp_tf.visual.overlays import (
        NEAR_AVERAGE,
        color_scale,
        dominant_prototypes,
        draw_matches,
        overlay_groups,
        overlay_weights,
        weight_spread,
    )
    from gsp_tf.visual.plane import class_hulls, embedding_map, project
    from gsp_tf.visual.prototype_figures import (
        attribute_histograms,
        correlation_maps,
        partition_maps,
    )

__all__ = [
    "CLASS_COLORS",
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
    "view_gallery",
]

import_lazily(__name__)
