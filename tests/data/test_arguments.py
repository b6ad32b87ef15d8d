"""What the functions and the classes of data refuse."""

import keras
import numpy as np
import pytest

from gsp_tf import data

EXPORTED = {"keras": keras, **{name: getattr(data, name) for name in data.__all__}}
LABELS = np.repeat(np.arange(4), 2)


def zeros(*shape, dtype="uint8"):
    return np.zeros(shape, dtype)


def classes(count, groups=None, side=3):
    """An image of each class."""
    names = list(map(str, range(count)))
    return data.ArrayImages(zeros(count, side, side, 1), range(count), names, groups)


def grouped(count, size=10):
    return classes(count * size, [f"g{i // size}" for i in range(count * size)])


FILES = data.FileImages(["a"], [0], ["a"])
TILES = classes(3)
DEEP = data.ArrayImages(zeros(2, 3, 3, 3, dtype="uint16"), [0, 1], list("ab"))
NOISE = data.ArrayImages(zeros(12, 8, 8, 1), np.arange(12) % 3, list("abc"))

REFUSED = {
    "ArrayImages(zeros(2, 2, 2, 1), [0, 1, 1], list('ab'))": "2 images and 3 labels",
    "ArrayImages(zeros(2, 2, 2, 1), [0, 2], list('ab'))": r"\[0, 2\).*from 0 to 2",
    "ArrayImages(zeros(2, 2, 2, 1), [0, 1], list('ab'), ['x'])": "2 classes; received 1",
    "ArrayImages(zeros(2, 4, 4, 3, dtype='float64'), [0, 1], list('ab'))":
        "uint8, uint16 or float32 .* received float64",
    "ArrayImages(zeros(2, 4, 4), [0, 1], list('ab'))": r"received uint8 of shape \(2, 4, 4\)",
    "ArrayImages(zeros(1, 4, 4, 3, dtype='float32'), [0], ['a'])":
        "value_range must be given for float32",
    "ArrayImages(zeros(1, 4, 4, 3, dtype='float32') + 2, [0], ['a'], value_range=(0, 1))":
        "values from 0 to 1, .* from 2.0 to 2.0",
    "ArrayImages(zeros(1, 4, 4, 3, dtype='uint16'), [0], ['a'], value_range=(5, 5))":
        r"the lower one first; received \(5, 5\)",
    **{f"TILES.subset({chosen})": r"distinct class ids.*\[0, 3\)"
       for chosen in ([], [0, 0], [3], [-1])},
    **{f"SelectedImages(NOISE, {numbers})": "must be integers; received dtype"
       for numbers in ("NOISE.labels == 2", [0.5, 1.9])},
    **{f"evaluation_dataset(NOISE, 8, 2, [0, {number}])": rf"lie in \[0, 12\); received .*{number}"
       for number in (-1, 12)},
    "CollageImages(NOISE, NOISE).foreground_masks([12])": r"lie in \[0, 12\)",
    # Divisions into classes.
    "data.protocol_classes('mlrc', 7, 3)": "the 7 classes of the training half give 6 and 1",
    "data.protocol_classes('ablation', 3)": "at least two classes to train and two to validate",
    **{f"split_classes(classes(6), {fractions})": "three numbers.*received"
       for fractions in ((0.5, 0.5), (0.5, 0.1, 0.1), (1.2, -0.2, 0.0))},
    "split_classes(classes(5), (0.5, 0.1, 0.4))":
        "at least 2 classes; received 5 classes for 3 splits",
    # Images made of images.
    "CanvasImages(NOISE, FILES, 20, 0.4)": "tiles must be ArrayImages.*FileImages",
    "CanvasImages(NOISE, ArrayImages(zeros(1, 4, 4, 3), [0], ['a']), 20, 0.4)":
        "same channels; received 1 and 3",
    **{f"CanvasImages(NOISE, TILES, 20, {share})": rf"share must lie in \(0, 1\]; received {share}"
       for share in (0, 1.2)},
    "CollageImages(FILES, TILES)": "ArrayImages.*FileImages",
    "CollageImages(TILES, classes(1, side=4))": r"one shape.*\(3, 3, 1\) and \(4, 4, 1\)",
    "CollageImages(TILES, data.ArrayImages(zeros(0, 3, 3, 1), [], ['a']))": "at least one image",
    "CollageImages(DEEP, DEEP)": "made of uint8 images",
    **{f"{files}([b'a'], [0], ['a'], channels=4)": "channels must be 1 or 3; received 4"
       for files in ("FileImages", "EncodedImages")},
    "CollageImages(TILES, TILES, 1.5)": "grid must be an integer .* 1, received 1.5",
    "collage_splits(grouped(2), ['g0', 'sea'], (0.4, 0.2, 0.4))":
        r"background groups \['sea'\].*'g0', 'g1'",
    "collage_splits(grouped(2), ['g0', 'g1'], (0.4, 0.2, 0.4))":
        "no class is left for the foreground",
    "collage_splits(grouped(6, 5), ['g0'], (0.4, 0.2, 0.4))":
        "background of the collages: every split needs",
    "collage_splits(classes(60, ['only'] * 60), [], (0.4, 0.2, 0.4), label='super_class')":
        "need two super-classes or more",
    "synthetic_token_sets(0)": "samples_per_class must be an integer of at least 1",
    "synthetic_token_sets(1, background_share=(0.5, -0.1))":
        r"deviation of at least 0; received \(0.5, -0.1\)",
    # Batches.
    **{f"TrainingView(16, augmentation=[keras.layers.{layer}])":
       rf"keras.layers.{layer.split('(')[0]}: (it|no seed) "
       for layer in ("AugMix()", "CutMix()", "MixUp()", "RandomCrop(8, 8)")},
    "TrainingView(16, augmentation=[keras.layers.Dense(2)])":
        "an image layer such as .*RandomRotation, received a Dense",
    "training_dataset(NOISE, 0, 2, 2, seed=0)":
        "image_size must be an integer of at least 1, received 0",
    "training_dataset(NOISE, 8, 2, 2, seed=0, resize=7)":
        r"resize must be None, or image_size \(8\) or more; received 7",
    **{f"training_dataset(NOISE, 8, 2, 2, seed=0, min_crop_area={area})":
       rf"\(0, 1\]; received {area}" for area in (0.0, 1.5)},
    "training_dataset(NOISE, 8, 2, 2, seed=0, views=3)": "views must be 1 or 2; received 3",
    "training_dataset(NOISE, 8, 2, 2, seed=0, unlabelled_per_batch=2)":
        "views must be 2 with unlabelled_per_batch",
    "training_dataset(NOISE, 8, 0, 2, seed=0, views=2)":
        "a batch needs images: give classes_per_batch or unlabelled",
    "training_dataset(NOISE, 8, 2, 2, seed=0, views=2, unlabelled_per_batch=1)":
        "at most the number of images to draw from, 0; received 1",
    "training_dataset(NOISE, 8, 9, 2, seed=0)": "at most the number of classes, 3; received 9",
    **{f"ClassBalancedSampler({labels}, 1, 1, 0)": "non-empty vector of integers"
       for labels in ([], [[0, 1]], [0.5, 1.5])},
    "ClassBalancedSampler(LABELS, 2, 2, 0).batch(-1)": "number must not be negative, received -1",
    "ClassBalancedSampler([0, 0, 3, 5, 5, 9], 2, 2, 0)":
        r"single one: 3, 9\. Drop these classes or set images_per_class",
    "ClassBalancedSampler([0, 0, 2, 3], 2, 2, 0, class_names=['w', 'x', 'y', 'z'])":
        "single one: y, z. Drop",
    "SuperClassSampler(LABELS, list('aab'), 1, 1, 2, 0)": "received 3 for labels from",
    "SuperClassSampler(LABELS, list('aaab'), 1, 2, 2, 0)": "fewer than .*=2 classes",
    "SuperClassSampler(LABELS, list('aabb'), 3, 1, 2, 0)": "classes, 2; received 3",
    "NearestClassSampler(LABELS, [[0]], 2, 2, 0)": "below N=8; received shape",
    "NearestClassSampler(LABELS, [[0]] * 8, 2, 2, 0, min_distance=0.1)":
        r"distances of the shape of the neighbours, \(8, 1\); received None",
    "FixedTripletSampler([0, 1, 2], 4, 2, 0)": "triplets need two classes",
    "FixedTripletSampler(LABELS, 4, 5, 0)": "1 to num_triplets; received 5 and 4",
    "WeightedSampler([0.0, 0.0], 2, 0)": "not all 0; received shape",
    "WeightedSampler([1.0, -1.0], 2, 0)": "from -1.0 to 1.0",
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_refuses_arguments(call):
    with pytest.raises((ValueError, TypeError, IndexError), match=REFUSED[call]):
        eval(call, EXPORTED | globals())
