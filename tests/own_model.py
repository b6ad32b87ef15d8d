"""What the blocks of the documentation take for the reader's own: images and a model of them."""

from pathlib import Path

import keras
import numpy as np
from PIL import Image

from gsp_tf import backbones
from gsp_tf.data import ArrayImages
from gsp_tf.layers import GeneralizedSumPooling, L2Normalization

SIZE = 16


def patterns(num_classes=6, images_per_class=4):
    """`ArrayImages` of coloured squares, one pattern for each class, with noise."""
    rng = np.random.default_rng(0)
    squares = rng.integers(0, 256, (num_classes, 4, 4, 3)).repeat(4, axis=1).repeat(4, axis=2)
    noise = rng.normal(0, 20, (num_classes, images_per_class, SIZE, SIZE, 3))
    images = np.clip(squares[:, None] + noise, 0, 255).astype("uint8")
    names = [f"pattern {label}" for label in range(num_classes)]
    labels = np.arange(num_classes).repeat(images_per_class)
    return ArrayImages(images.reshape(-1, SIZE, SIZE, 3), labels, names)


def write_folder(path, num_classes):
    """Those images as a folder for each class."""
    images = patterns(num_classes)
    for index, label in enumerate(images.labels):
        folder = Path(path) / images.class_names[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.image(index)).save(folder / f"{index}.png")


def small_embedder():
    """A model of them whose layer "pooling" is GSP, with four prototypes."""
    inputs = keras.Input((SIZE, SIZE, 3))
    features = backbones.create("conv4", (SIZE, SIZE, 3))(inputs)
    pooled = GeneralizedSumPooling(num_prototypes=4, name="pooling")(features)
    return keras.Model(inputs, L2Normalization()(pooled))
