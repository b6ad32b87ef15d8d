"""Labelled image sets, class-disjoint splits, samplers and pipelines of batches."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.data.datasets.canvas import CanvasImages
    from gsp_tf.data.datasets.cars196 import load_cars196
    from gsp_tf.data.datasets.cifar import load_cifar10, load_cifar100
    from gsp_tf.data.datasets.cifar_collage import load_cifar_collage
    from gsp_tf.data.datasets.collage import CollageImages, collage_splits
    from gsp_tf.data.datasets.cub200 import load_cub200
    from gsp_tf.data.datasets.folder import find_images, load_folder
    from gsp_tf.data.datasets.glyphs import load_glyphs
    from gsp_tf.data.datasets.in_shop import load_in_shop
    from gsp_tf.data.datasets.manifest import load_manifest, read_rows
    from gsp_tf.data.datasets.mnist import load_mnist
    from gsp_tf.data.datasets.omniglot import load_omniglot
    from gsp_tf.data.datasets.sop import load_sop
    from gsp_tf.data.datasets.token_sets import synthetic_token_sets
    from gsp_tf.data.datasets.unlabelled import load_unlabelled
    from gsp_tf.data.images._formats import IMAGE_EXTENSIONS
    from gsp_tf.data.images._identical import identical_files, identical_images, shared_images
    from gsp_tf.data.images._jpeg import decode_jpeg_window, is_upright_jpeg, to_grey
    from gsp_tf.data.images._left_out import LeftOut, find_unreadable
    from gsp_tf.data.images._reduced import reduce_images
    from gsp_tf.data.images.decode import (
        MAX_PIXELS,
        UnreadableImageError,
        check_image,
        decode_image,
        image_size,
        read_image,
    )
    from gsp_tf.data.images.encoded_images import EncodedImages, FileImages
    from gsp_tf.data.images.image_set import ArrayImages, ImageSet, SelectedImages
    from gsp_tf.data.pipeline._feature_maps import (
        cache_feature_maps,
        evaluation_maps,
        training_maps,
    )
    from gsp_tf.data.pipeline._windows import central_window, resize_window
    from gsp_tf.data.pipeline.batches import (
        as_arrays,
        evaluation_dataset,
        evaluation_image,
        sampled_dataset,
        training_dataset,
    )
    from gsp_tf.data.pipeline.samplers import (
        ClassBalancedSampler,
        FixedTripletSampler,
        NearestClassSampler,
        Sampler,
        SuperClassSampler,
        WeightedSampler,
    )
    from gsp_tf.data.pipeline.view import TrainingView, ViewedImages
    from gsp_tf.data.splits import halve_classes, protocol_classes, split_classes, split_images

__all__ = [
    "MAX_PIXELS",
    "ArrayImages",
    "CanvasImages",
    "ClassBalancedSampler",
    "CollageImages",
    "EncodedImages",
    "FileImages",
    "FixedTripletSampler",
    "ImageSet",
    "NearestClassSampler",
    "Sampler",
    "SelectedImages",
    "SuperClassSampler",
    "TrainingView",
    "UnreadableImageError",
    "WeightedSampler",
    "collage_splits",
    "evaluation_dataset",
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
    "load_unlabelled",
    "read_image",
    "sampled_dataset",
    "split_classes",
    "synthetic_token_sets",
    "training_dataset",
]

import_lazily(__name__)
