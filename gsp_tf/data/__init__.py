"""Labelled image sets, class-disjoint splits, samplers and `tf.data` pipelines."""

from gsp_tf.data.arrays import as_arrays
from gsp_tf.data.collage import CollageImages, collage_splits
from gsp_tf.data.decode import UnreadableImageError, find_unreadable, read_image
from gsp_tf.data.folder import load_folder
from gsp_tf.data.glyphs import load_glyphs
from gsp_tf.data.image_set import ArrayImages, FileImages, ImageSet
from gsp_tf.data.manifest import load_manifest
from gsp_tf.data.omniglot import load_omniglot
from gsp_tf.data.pipeline import evaluation_dataset, training_dataset
from gsp_tf.data.samplers import ClassBalancedSampler
from gsp_tf.data.splits import split_classes

__all__ = [
    "ArrayImages",
    "ClassBalancedSampler",
    "CollageImages",
    "FileImages",
    "ImageSet",
    "UnreadableImageError",
    "as_arrays",
    "collage_splits",
    "evaluation_dataset",
    "find_unreadable",
    "load_folder",
    "load_glyphs",
    "load_manifest",
    "load_omniglot",
    "read_image",
    "split_classes",
    "training_dataset",
]
