"""Labelled image sets, class-disjoint splits, samplers and pipelines of batches."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.data.datasets.benchmarks import load_cars196, load_cub200, load_in_shop, load_sop
    from gsp_tf.data.datasets.canvas import CanvasImages
    from gsp_tf.data.datasets.collage import CollageImages, collage_splits
    from gsp_tf.data.datasets.glyphs import load_glyphs
    from gsp_tf.data.datasets.own import (
        find_images,
        load_folder,
        load_manifest,
        load_unlabelled,
        read_rows,
    )
    from gsp_tf.data.datasets.small_images import (
        load_cifar10,
        load_cifar100,
        load_cifar_collage,
        load_mnist,
        load_omniglot,
    )
    from gsp_tf.data.datasets.token_sets import synthetic_token_sets
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
    from gsp_tf.data.pipeline.view import TrainingView, ViewedImages, central_window, resize_window
    from gsp_tf.data.splits import (
        class_by_class,
        halve_classes,
        protocol_classes,
        split_classes,
        split_images,
    )

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
