"""Training from the features of a frozen part: the same as from images, but for rounding."""

import itertools
from dataclasses import replace

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy

from gsp_tf import data
from gsp_tf.layers import FrozenNetwork
from gsp_tf.recipe import CollageRecipe, load_recipe
from gsp_tf.runs import Run, _inputs, build_embedder, load_splits

CCP = """
backbone: {name: conv4, frozen_to: block_2}
trainer: ccp
loss: {name: contrastive}
pooling: {name: gsp, num_prototypes: 4}
zero_shot: {weight: 0.1, embedding_dim: 8}
ccp: {proxies_per_class: 2, pool_size: 3, patience: 1}
training: {epochs: 2, steps_per_epoch: 2, learning_rate: 0.0001, warmup_epochs: 1, adapt_batches: 1}
"""
FLIPS = ["--data.horizontal_flip", "true"]


@pytest.fixture(scope="module")
def recipes(write_recipe, tmp_path_factory):
    """The same recipe from images and from features."""
    path, cache = write_recipe(CCP), str(tmp_path_factory.mktemp("features"))
    return [load_recipe(path, FLIPS), load_recipe(path, [*FLIPS, "--data.feature_cache", cache])]


@pytest.fixture(scope="module")
def whole(recipes, tmp_path_factory):
    """A finished run from features."""
    return Run(tmp_path_factory.mktemp("runs") / "run", recipes[1]).train()


def test_training_from_features_equals_images(whole, recipes, tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "evaluate", lambda self: None)
    from_images = Run(tmp_path / "images", recipes[0]).train()
    ours, theirs = whole.folder.history(), from_images.folder.history()
    assert ours.keys() == theirs.keys()
    for name, tolerance in (("loss", 2e-3), ("val_map_at_r", 0.03)):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=tolerance, err_msg=name)
    learners = [run.folder.learner() for run in (whole, from_images)]
    joined, expected = (learner.embedder for learner in learners)
    assert joined.input_shape == expected.input_shape == (None, 16, 16, 1)
    shapes = [[weight.shape for weight in learner.embedder.weights] for learner in learners]
    assert shapes[0] == shapes[1]
    assert [w.shape for w in learners[0].trainable_weights] == [
        w.shape for w in learners[0].optimizer._trainable_variables
    ]
    frozen = (model.get_layer("frozen").get_weights() for model in (joined, expected))
    np.testing.assert_equal(*frozen)
    assert whole.folder.metrics()["test"]["num_queries"] == 60


def test_a_run_by_ccp_keeps_its_problems(whole):
    history, (problem,) = whole.folder.history(), whole.folder.metrics()["projections"]
    assert history["projection"] == [0, 1] and problem["steps"] == 2  # after the warm-up
    assert problem["map_at_r"] == pytest.approx(history["val_map_at_r"][1])


def test_collages_are_drawn_for_training_and_kept_for_evaluation(write_recipe, tmp_path):
    recipe = load_recipe(write_recipe("backbone: {name: conv4, frozen_to: block_2}"))
    collages = replace(recipe.data, collage=CollageRecipe(2), feature_cache=str(tmp_path))
    recipe = replace(recipe, data=collages)
    splits, embedder = load_splits(recipe, images(num_classes=30)), build_embedder(recipe, 1)
    few = splits.validation.subset(range(3))
    frozen, ours = embedder.get_layer("frozen"), _inputs.FeatureInputs(recipe, embedder)

    def batches(inputs):
        return itertools.islice(inputs.training_batches(splits.train, first_epoch=1), 2)

    for (maps, labels), (pixels, expected) in zip(
        batches(ours), batches(_inputs.ImageInputs(recipe)), strict=True
    ):
        np.testing.assert_allclose(maps, convert_to_numpy(frozen(pixels)), atol=1e-4)
        np.testing.assert_array_equal(labels, expected)
    assert not list(tmp_path.iterdir())
    ours.evaluation_batches(few)
    assert len(list(tmp_path.rglob("*.npy"))) == len(few.class_names)


def images(num_classes=3, each=4):
    """Random images, some classes of which have more than others."""
    labels = np.repeat(np.arange(num_classes), each)
    pixels = np.random.default_rng(0).integers(0, 256, (len(labels), 6, 6, 1), "uint8")
    return data.ArrayImages(pixels, np.roll(labels, 2), list(map(str, range(num_classes))))


def computed(folder, of=None, network=lambda x: x / 7, **settings):
    """Maps of images, and how many batches were computed for them."""
    calls = []

    def counting(batch):
        calls.append(len(batch))
        return network(keras.ops.convert_to_numpy(batch))

    arguments = {"key": "seventh", "image_size": 4, "batch_size": 5, **settings}
    maps = data.cache_feature_maps(of or images(), counting, folder, **arguments)
    return maps, sum(calls)


def test_maps_are_those_of_the_images_in_any_order(tmp_path):
    maps, count = computed(tmp_path)
    mirrored, _ = computed(tmp_path, mirrored=True)
    ((pixels, labels),) = data.evaluation_dataset(images(), 4, 12)
    expected = (pixels.numpy() / 7).astype("float16")
    order = [7, 0, 11, 11]
    np.testing.assert_array_equal(maps.read(order), expected[order])
    np.testing.assert_array_equal(mirrored.read(order), expected[order][:, :, ::-1])
    assert count == len(maps) == 12 and maps.shape == (4, 4, 1)
    batches = list(data.evaluation_maps(maps, 5, [3, 1, 2, 9, 4, 8]))
    np.testing.assert_array_equal(batches[1][0], expected[[8]])
    assert batches[0][1].numpy().tolist() == labels.numpy()[[3, 1, 2, 9, 4]].tolist()


def test_batches_are_those_of_images(tmp_path):
    of = images()
    maps = [computed(tmp_path, mirrored=mirrored)[0] for mirrored in (False, True)]
    batches = data.training_maps(*maps, 2, 3, seed=5, first_batch=2)
    expected = data.training_dataset(of, 4, 2, 3, 5, horizontal_flip=True, first_batch=2)
    for (ours, labels), (theirs, their_labels), _ in zip(batches, expected, range(4), strict=False):
        np.testing.assert_array_equal(ours, (theirs.numpy() / 7).astype("float16"))
        assert labels.numpy().tolist() == their_labels.numpy().tolist()


@pytest.mark.parametrize("cached", [False, True], ids=["images", "features"])
def test_a_pass_shows_every_image_once_and_continues_at_an_epoch(cached, recipes, monkeypatch):
    recipe = replace(recipes[cached], seed=5)
    labels = np.repeat(np.arange(4), 6)
    of_image = np.arange(24, dtype="uint8").reshape(-1, 1, 1, 1) * np.ones((16, 16, 3), "uint8")
    images = data.ArrayImages(of_image, labels, list("abcd"))
    changed = replace(recipe.data, classes_per_batch=2, images_per_class=3, cycle_images=True)
    recipe = replace(recipe, data=changed)
    inputs = _inputs.ImageInputs(recipe)
    if cached:
        inputs = _inputs.FeatureInputs(recipe, build_embedder(recipe, channels=3))
        monkeypatch.setattr(inputs, "_network", lambda batch: batch)

    def shown(batches):
        return [convert_to_numpy(batch)[:, 0, 0, 0].round().tolist() for batch, _ in batches]

    whole = shown(itertools.islice(inputs.training_batches(images), 4))
    assert sorted(sum(whole, start=[])) == list(range(24))
    rest = itertools.islice(inputs.training_batches(images, first_epoch=1), 2)
    assert shown(rest) == whole[2:]


def test_maps_are_computed_once_and_a_stopped_computation_continues(tmp_path):
    seen = []

    def until_full(batch):
        seen.append(batch)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return batch / 7

    with pytest.raises(KeyboardInterrupt):
        computed(tmp_path, network=until_full)
    assert len(list(tmp_path.glob("*/*.npy"))) == 1
    assert computed(tmp_path)[1] == 8
    assert computed(tmp_path)[1] == 0
    assert computed(tmp_path, images().subset([2, 0]))[1] == 0  # of another fold
    assert computed(tmp_path, key="other")[1] == computed(tmp_path, image_size=3)[1] == 12
    changed = images()
    changed.images[0, 0, 0, 0] ^= 1
    assert computed(tmp_path, changed)[1] == 4
    assert not list(tmp_path.glob("*/.*"))


def test_bad_maps_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not finite in float16, whose largest number is 65504"):
        computed(tmp_path, network=lambda x: x + 7e4)
    assert not list(tmp_path.glob("*/*"))
    computed(tmp_path)
    file = next(tmp_path.glob("*/*.npy"))
    for content in (b"", b"no array", file.read_bytes()[:150]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"npy is damaged .* Remove it to compute it again"):
            computed(tmp_path)
    np.save(file, np.zeros((3, 4, 4, 1), "float16"))
    with pytest.raises(ValueError, match=r"holds float16 of shape \(3, 4, 4, 1\), expected 4 maps"):
        computed(tmp_path)


def test_the_frozen_part_stays_frozen():
    recipe = load_recipe([], ["--backbone.name", "resnet20", "--backbone.frozen_to", "stage_2"])
    embedder = build_embedder(recipe, channels=3)
    embedder.trainable = True
    frozen = embedder.get_layer("frozen")
    assert isinstance(frozen, FrozenNetwork) and not frozen.trainable_weights
    of_frozen = {id(weight) for weight in frozen.weights}
    trained = [w.shape for w in embedder.weights if id(w) not in of_frozen and w.trainable]
    assert [weight.shape for weight in embedder.trainable_weights] == trained
    before = [weight.numpy() for weight in frozen.weights]
    pixels = np.random.default_rng(0).uniform(0, 255, (4, 48, 48, 3)).astype("float32")
    outputs = [keras.ops.convert_to_numpy(frozen(pixels, training=t)) for t in (True, False)]
    np.testing.assert_array_equal(*outputs)
    embedder(pixels, training=True)
    for weight, value in zip(frozen.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
    loaded = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(embedder))
    loaded.trainable = True
    assert [weight.shape for weight in loaded.trainable_weights] == trained
