import keras
import numpy as np
import pytest

from gsp_tf import backbones
from gsp_tf.backbones import freeze_batch_normalization, freeze_layers
from gsp_tf.layers import FrozenBatchNormalization

IMAGES = np.random.default_rng(0).uniform(0, 255, (4, 16, 16, 1)).astype("float32")


def normalizations(model):
    return [x for x in model.layers if isinstance(x, keras.layers.BatchNormalization)]


@pytest.fixture(scope="module")
def model():
    """A network with random batch normalisation instead of the identity; not to be changed."""
    network, random = backbones.create("resnet20", (16, 16, 1)), np.random.default_rng(0)
    for layer in normalizations(network):
        layer.set_weights([random.uniform(0.5, 1.5, w.shape) for w in layer.get_weights()])
    return network


def test_the_copy_is_the_model_in_inference_also_when_loaded(model, tmp_path):
    frozen = freeze_batch_normalization(model)
    frozen.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for copy in (frozen, loaded):
        np.testing.assert_array_equal(copy(IMAGES, training=True), model(IMAGES, training=False))
    unfrozen = keras.models.clone_model(model)
    unfrozen.set_weights(model.get_weights())
    assert np.abs(unfrozen(IMAGES, training=True) - frozen(IMAGES)).max() > 0.01
    names = [[layer.name for layer in m.layers[1:]] for m in (frozen, model)]
    assert frozen.name == model.name and names[0] == names[1]
    assert all(type(layer) is FrozenBatchNormalization for layer in normalizations(frozen))
    assert not any(isinstance(x, FrozenBatchNormalization) for x in normalizations(model))


def test_training_moves_the_convolutions_alone(model):
    frozen = freeze_batch_normalization(model)
    pooled = keras.layers.GlobalAveragePooling2D()(frozen.output)
    trained = keras.Model(frozen.input, keras.layers.Dense(1)(pooled))
    before = {w.path: w.numpy() for w in frozen.weights}
    trained.compile("adam", loss="mse", run_eagerly=True)
    trained.train_on_batch(IMAGES, np.arange(4.0))
    for layer in frozen.layers:
        for weight in layer.weights:
            is_same = np.array_equal(weight, before[weight.path])
            assert is_same == isinstance(layer, FrozenBatchNormalization), weight.path


def test_it_stays_frozen_when_a_model_around_it_is_made_trainable(model):
    """As the warm-up of an experiment does with the backbone."""
    frozen = freeze_batch_normalization(model)
    around = keras.Sequential([frozen])
    for value in (False, True):
        around.trainable = value
        assert all(not layer.trainable for layer in normalizations(frozen))
        assert not any(layer.trainable_weights for layer in normalizations(frozen))
    assert around.trainable_weights
    assert not any("batch_normalization" in weight.path for weight in around.trainable_weights)


def test_layers_are_frozen_by_their_paths():
    keras.backend.clear_session()  # the names of layers count from the first
    network = backbones.create("conv4", (16, 16, 1))
    freeze_layers(network, ["conv2d", "normalization(_1)?$"])
    network.compile("sgd", loss="mse", run_eagerly=True)
    before = {w.path: w.numpy() for w in network.weights}
    shape = (len(IMAGES), *network.output_shape[1:])
    network.train_on_batch(IMAGES, np.ones(shape))
    moved = {w.path for w in network.weights if not np.array_equal(w, before[w.path])}
    last = normalizations(network)[2:]
    assert moved == {weight.path for layer in last for weight in layer.weights}
