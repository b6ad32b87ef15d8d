import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf
from encoded_images import encoded
from PIL import Image

from gsp_tf.data import (
    ArrayImages,
    CollageImages,
    EncodedImages,
    FileImages,
    ImageSet,
    SelectedImages,
    evaluation_dataset,
    training_dataset,
)


@pytest.fixture
def numbered():
    pixels = np.arange(6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 3, 4, 1), np.uint8)
    return ArrayImages(pixels, [0, 1, 2, 0, 1, 2], ["a", "b", "c"], ["x", "x", "y"])


def test_subset_renumbers_in_the_order_given(numbered):
    part = numbered.subset([2, 0])
    assert part.class_names == ("c", "a")
    assert part.groups == ("y", "x")
    assert part.labels.tolist() == [1, 0, 1, 0]
    assert [int(part.image(i)[0, 0, 0]) for i in range(4)] == [0, 2, 3, 5]


def test_the_identity_of_selected_collages_is_of_what_is_seen(numbered):
    """A collage depends on its place, so that of an image differs between two selections."""
    collages = CollageImages(numbered, numbered)
    some, others = SelectedImages(collages, range(6)), SelectedImages(collages, [4, 5])
    nested = SelectedImages(some, [4, 5])
    for number in (0, 1):
        pixels = [images.image(number) for images in (others, nested)]
        np.testing.assert_array_equal(*pixels)
        assert others.identity(number) == nested.identity(number)
        is_same = np.array_equal(some.image(4 + number), pixels[0])
        assert (some.identity(4 + number) == others.identity(number)) == is_same


def test_a_copy_reads_by_a_graph_of_its_own(numbered):
    collages = CollageImages(numbered, numbered)
    known = collages.image(1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(collages)).image(1), known)
    single = copy.copy(collages)
    single.grid = 1
    np.testing.assert_array_equal(single.image(1), numbered.image(1))


def test_file_images_of_different_sizes_in_a_graph(tmp_path):
    names = ["größe 1.png", "字.png"]
    for name, size, colour in zip(names, [(4, 3), (6, 5)], ["red", "blue"], strict=True):
        Image.new("RGB", size, colour).save(tmp_path / name)
    images = FileImages([tmp_path / name for name in names], [0, 1], ["a", "b"])
    numbers = tf.data.Dataset.range(2)
    loaded = list(numbers.map(lambda i: images.load(i, tf.stack([0, i]))).as_numpy_iterator())
    assert [image.shape for image in loaded] == [(3, 4, 3), (5, 6, 3)]
    assert loaded[1][0, 0].tolist() == [0, 0, 255]
    assert images.subset([1]).paths == (str(tmp_path / names[1]),)


class Read(ImageSet):
    """A set of a user, which reads by NumPy."""

    def read(self, index, seed):
        return np.full((4, 4, 1), 10 + index, np.uint8)

    def subset(self, classes):
        raise NotImplementedError


class Loaded(ImageSet):
    """A set of a user, which reads in a graph, with a Python condition on a tensor."""

    def load(self, index, seed):
        image = tf.fill((4, 4, 1), tf.cast(11, tf.uint8))
        if index == 0:
            image -= 1
        return image

    subset = Read.subset


@pytest.mark.parametrize("kind", [Read, Loaded])
def test_sets_of_users_define_one_way_to_read(kind):
    images = kind([0, 1], ["a", "b"], channels=1)
    assert (images.image(1) == 11).all()
    for shown in (images, SelectedImages(images, range(2))):
        ((batch, _),) = evaluation_dataset(shown, 4, batch_size=2)
        assert batch.numpy()[:, 0, 0, 0].tolist() == [10, 11]
        dataset = training_dataset(shown, 4, 2, 1, seed=0)
        assert dataset.element_spec[0].shape == (2, 4, 4, 1)


def test_subsets_of_encoded_images_keep_the_contents():
    contents = [encoded(Image.new("L", (2, 2), grey), "PNG") for grey in range(4)]
    images = EncodedImages(contents, [0, 1, 0, 1], ["x", "y"], "gh", channels=1)
    some = images.subset([1])
    assert some.contents == (contents[1], contents[3]) and some.image(1).max() == 3
    assert some.class_names == ("y",) and some.groups == ("h",) and some.channels == 1
