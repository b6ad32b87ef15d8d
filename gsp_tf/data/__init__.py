"""Labelled image sets, class-disjoint splits, samplers and `tf.data` pipelines."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.data.arrays import as_arrays
    from gsp_tf.data.cars196 import load_cars196
    from gsp_tf.data.cifar10 import load_cifar10
    from gsp_tf.data.cifar100 import load_cifar100
    from gsp_tf.data.cifar_collage import load_cifar_collage
    from gsp_tf.data.collage import CollageImages, collage_splits
    from gsp_tf.data.cub200 import load_cub200
    from gsp_tf.data.decode import (
        MAX_PIXELS,
        UnreadableImageError,
        check_image,
        decode_image,
        read_image,
    )
    from gsp_tf.data.encoded import decode_window
    from gsp_tf.data.folder import find_images, load_folder
    from gsp_tf.data.formats import IMAGE_EXTENSIONS
    from gsp_tf.data.glyphs import load_glyphs
    from gsp_tf.data.image_set import ArrayImages, EncodedImages, FileImages, ImageSet
    from gsp_tf.data.in_shop import load_in_shop
    from gsp_tf.data.left_out import LeftOut
    from gsp_tf.data.manifest import load_manifest, read_rows
    from gsp_tf.data.mnist import load_mnist
    from gsp_tf.data.omniglot import load_omniglot
    from gsp_tf.data.pipeline import (
        central_window,
        evaluation_dataset,
        resize_window,
        training_dataset,
    )
    from gsp_tf.data.readable import find_unreadable
    from gsp_tf.data.reduced_images import ReducedImages, reduce_images
    from gsp_tf.data.samplers import ClassBalancedSampler
    from gsp_tf.data.sop import load_sop
    from gsp_tf.data.splits import halve_classes, protocol_classes, split_classes
    from gsp_tf.data.token_sets import synthetic_token_sets

__all__ = [
    "IMAGE_EXTENSIONS",
    "MAX_PIXELS",
    "ArrayImages",
    "ClassBalancedSampler",
    "CollageImages",
    "EncodedImages",
    "FileImages",
    "ImageSet",
    "LeftOut",
    "ReducedImages",
    "UnreadableImageError",
    "as_arrays",
    "central_window",
    "check_image",
    "collage_splits",
    "decode_image",
    "decode_window",
    "evaluation_dataset",
    "find_images",
    "find_unreadable",
    "halve_classes",
    "load_cars196",
    "load_cifar10",
    "load_cifar100",
    "load_cifar_collage",
    "load_cub200",
    "load_folder",
    "load_glyphs",
    "load_in_shop",
    "load_manifest",
    "load_mnist",
    "load_omniglot",
    "load_sop",
    "protocol_classes",
    "read_image",
    "read_rows",
    "reduce_images",
    "resize_window",
    "split_classes",
    "synthetic_token_sets",
    "training_dataset",
]

import_lazily(__name__)
