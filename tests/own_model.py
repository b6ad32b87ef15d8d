"""Images and a model that the code blocks of the documentation treat as the reader's own."""

from pathlib import Path

import keras
import numpy as np
from embedded import untrained_run
from PIL import Image

from gsp_tf import backbones
from gsp_tf.data import ArrayImages
from gsp_tf.layers import GeneralizedSumPooling, L2Normalization
from gsp_tf.recipe import BackboneRecipe, ClassRecipe, DataRecipe, EmbeddingRecipe, Recipe

SIZE = 16


def patterns(num_classes=6, images_per_class=4):
    """`ArrayImages` of noisy coloured squares, one pattern per class."""
    rng = np.random.default_rng(0)
    squares = rng.integers(0, 256, (num_classes, 4, 4, 3)).repeat(4, axis=1).repeat(4, axis=2)
    noise = rng.normal(0, 20, (num_classes, images_per_class, SIZE, SIZE, 3))
    images = np.clip(squares[:, None] + noise, 0, 255).astype("uint8")
    names = [f"pattern {label}" for label in range(num_classes)]
    labels = np.arange(num_classes).repeat(images_per_class)
    return ArrayImages(images.reshape(-1, SIZE, SIZE, 3), labels, names)


def write_folder(path, num_classes):
    """The images as one folder per class."""
    images = patterns(num_classes)
    for index, label in enumerate(images.labels):
        folder = Path(path) / images.class_names[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.image(index)).save(folder / f"{index}.png")


def write_run(path):
    """A run folder with an untrained model of the images in my_images."""
    write_folder("my_images", 6)
    data = DataRecipe(
        name="folder", path="my_images", image_size=SIZE, split_fractions=(0.4, 0.3, 0.3)
    )
    recipe = Recipe(
        data=data,
        backbone=BackboneRecipe("conv4"),
        pooling=ClassRecipe("crow"),
        embedding=EmbeddingRecipe(8),
    )
    untrained_run(path, recipe)


def small_network(include_top, weights):
    """What the networks of `keras.applications` make, by one convolution."""
    assert not include_top and weights in (None, "imagenet")
    return keras.Sequential([keras.layers.Conv2D(8, 32, strides=32, activation="relu")])


def register_pretrained(monkeypatch, folder, *names, blocks=((8, 8),)):
    """Registers small networks, each with other "imagenet" weights; a folder has Keras' cache.

    The blocks have numbers of channels and strides.
    """
    monkeypatch.setenv("KERAS_HOME", str(folder / "keras"))
    registry = backbones.registry
    monkeypatch.setattr(registry, "_BUILDERS", dict(registry._BUILDERS))
    for seed, name in enumerate(names):
        registry._BUILDERS.pop(name, None)

        def build(input_shape, weights=None, name=name, seed=seed):
            images = keras.Input(input_shape)
            start = keras.initializers.Orthogonal(seed=seed)
            x = keras.layers.Rescaling(1 / 255)(images)
            for channels, stride in blocks:
                x = keras.layers.Conv2D(channels, stride, stride, kernel_initializer=start)(x)
                x = keras.layers.BatchNormalization()(x)
                x = keras.layers.ReLU(name=f"block_of_{channels}")(x)
            return keras.Model(images, x, name=name)

        file = f"{name}.h5"
        backbones.register(name, pretrained=["imagenet"], weights_file=lambda side, f=file: f)(
            build
        )
        path = backbones.weights_source(name, 128).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def small_embedder():
    """A model of the images; its layer "pooling" is GSP with four prototypes."""
    inputs = keras.Input((SIZE, SIZE, 3))
    features = backbones.create("conv4", (SIZE, SIZE, 3))(inputs)
    pooled = GeneralizedSumPooling(num_prototypes=4, name="pooling")(features)
    return keras.Model(inputs, L2Normalization()(pooled))
