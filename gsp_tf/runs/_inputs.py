"""What a learner trains from: the images of a recipe, or the features of their frozen part."""

import hashlib
from pathlib import Path

import keras
import numpy as np

from gsp_tf._lazy import tensorflow as tf
from gsp_tf._version import __version__
from gsp_tf.data import (
    CollageImages,
    cache_feature_maps,
    evaluation_maps,
    training_dataset,
    training_maps,
)
from gsp_tf.recipe import augmentation_layers
from gsp_tf.runs.data import evaluation_batches
from gsp_tf.runs.model import FROZEN
from gsp_tf.training import inference


class ImageInputs:
    """Batches of images."""

    start = None  # the tensor of the embedder that the inputs are values of, if not its images

    def __init__(self, recipe, unlabelled=None):
        self.recipe, self._unlabelled = recipe, unlabelled

    def training_batches(self, images, first_epoch=0):
        """Endless training batches `(images, labels)`, starting at an epoch."""
        recipe, data = self.recipe, self.recipe.data
        return training_dataset(
            images,
            data.image_size,
            data.classes_per_batch,
            data.images_per_class,
            seed=recipe.seed,
            horizontal_flip=data.horizontal_flip,
            min_crop_area=data.min_crop_area,
            resize=data.resize,
            first_batch=first_epoch * recipe.training.steps_per_epoch,
            augmentation=augmentation_layers(data),
            views=data.views,
            unlabelled=self._unlabelled,
            unlabelled_per_batch=data.unlabelled_per_batch,
            cycle_images=data.cycle_images,
        )

    def evaluation_batches(self, images, indices=None):
        """Batches of images, or of those in `indices`, as evaluation sees them."""
        return evaluation_batches(self.recipe, images, indices)


class FeatureInputs:
    """Batches of the features that the frozen part of an embedder gives for the same images."""

    def __init__(self, recipe, embedder):
        self.recipe = recipe
        frozen = embedder.get_layer(FROZEN)
        self.start = frozen.output
        self._network = inference(frozen.network)
        self._key = _key(recipe, frozen)
        self._computed = {}

    def training_batches(self, images, first_epoch=0):
        """As those of `ImageInputs`, the mirrored ones included."""
        recipe, data = self.recipe, self.recipe.data
        if isinstance(images, CollageImages):
            drawn = ImageInputs(recipe).training_batches(images, first_epoch)
            return drawn.map(self._drawn_maps).prefetch(2)
        return training_maps(
            self._maps(images),
            self._maps(images, mirrored=True) if data.horizontal_flip else None,
            data.classes_per_batch,
            data.images_per_class,
            recipe.seed,
            first_epoch * recipe.training.steps_per_epoch,
            images.class_names,
            data.cycle_images,
        )

    def evaluation_batches(self, images, indices=None):
        """As those of `ImageInputs`."""
        return evaluation_maps(self._maps(images), self.recipe.evaluation.batch_size, indices)

    def _drawn_maps(self, images, labels):
        """The maps of images that every batch draws, and their labels, in a graph."""

        def compute(images):
            return keras.ops.convert_to_numpy(self._network(images))

        maps = tf.numpy_function(compute, [images], tf.float32)
        return tf.ensure_shape(maps, (images.shape[0], *self.start.shape[1:])), labels

    def _maps(self, images, mirrored=False):
        """The maps of an image set, looked up once."""
        data, name = self.recipe.data, (id(images), mirrored)
        if name not in self._computed:
            maps = cache_feature_maps(
                images,
                self._network,
                data.feature_cache,
                self._key,
                data.image_size,
                self.recipe.evaluation.batch_size,
                data.resize,
                mirrored,
            )
            self._computed[name] = images, maps  # the reference keeps the id
        return self._computed[name][1]


def evaluation_inputs(recipe, embedder):
    """A model and its inputs: the embedder and images, or its upper part and features on disk."""
    folder = recipe.data.feature_cache
    if folder is None or not Path(folder).is_dir():  # a run is evaluated elsewhere, too
        return embedder, ImageInputs(recipe)
    inputs = FeatureInputs(recipe, embedder)
    return keras.Model(inputs.start, embedder.output), inputs


def _key(recipe, frozen):
    """Text that changes with the frozen part of a recipe's network and its weights."""
    digest = hashlib.sha256()
    for weight in frozen.get_weights():
        digest.update(f"{weight.shape} {weight.dtype}".encode())
        digest.update(np.ascontiguousarray(weight).tobytes())
    backbone, precision = recipe.backbone, recipe.training.precision
    of_network = f"{backbone.name} {backbone.preset} {backbone.tokens} {backbone.frozen_to}"
    return f"{__version__} {of_network} {precision} {digest.hexdigest()}"
