import keras
import numpy as np
import pytest

from gsp_tf.training import with_learning_rate_multipliers, with_weight_decay_exclusions

RATE, DECAY = 0.1, 0.5


def fitted(optimizer, epochs=1):
    """A model whose gradients are zero: weight decay alone moves its weights, all 1 at first."""
    inputs = keras.Input((3,))
    x = keras.layers.Dense(2, kernel_initializer="ones", bias_initializer="ones", name="dense")(
        inputs
    )
    x = keras.layers.BatchNormalization(beta_initializer="ones", name="normalization")(x)
    model = keras.Model(inputs, x)
    model.compile(optimizer, loss=lambda y, outputs: 0.0 * keras.ops.sum(outputs, axis=-1))
    model.fit(np.ones((4, 3)), np.ones((4, 2)), epochs=epochs, verbose=0)
    return model


def decayed(model):
    """Paths of the weights that decay has moved, and by what factor."""
    values = {w.path: float(np.ravel(w)[0]) for w in model.trainable_weights}
    return {path: value for path, value in values.items() if value != 1}


@pytest.mark.parametrize(
    ("patterns", "excluded"),
    [
        ([], set()),
        (["bias$"], {"dense/bias"}),
        (["normalization/"], {"normalization/gamma", "normalization/beta"}),
        (["(?i)GAMMA", "^dense"], {"normalization/gamma", "dense/kernel", "dense/bias"}),
    ],
)
@pytest.mark.parametrize("wrap", [lambda inner: inner, keras.optimizers.LossScaleOptimizer])
def test_decay_keeps_to_the_rest(patterns, excluded, wrap):
    optimizer = wrap(keras.optimizers.SGD(RATE, weight_decay=DECAY))
    model = fitted(with_weight_decay_exclusions(optimizer, patterns))
    moved = decayed(model)
    paths = {w.path for w in model.trainable_weights}
    assert set(moved) == paths - excluded
    assert list(moved.values()) == pytest.approx([1 - RATE * DECAY] * len(moved))


def test_with_multipliers():
    optimizer = keras.optimizers.Adam(RATE, weight_decay=DECAY)
    with_weight_decay_exclusions(optimizer, ["gamma", "beta"])
    model = fitted(with_learning_rate_multipliers(optimizer, {"bias": 3}))
    assert decayed(model) == pytest.approx(
        {"dense/kernel": 1 - RATE * DECAY, "dense/bias": 1 - 3 * RATE * DECAY}
    )


def test_a_saved_model_keeps_them(tmp_path):
    optimizer = keras.optimizers.SGD(RATE, weight_decay=DECAY)
    model = fitted(with_weight_decay_exclusions(optimizer, ["kernel", "gamma"]))
    model.compile(optimizer, loss="mse")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    before = loaded.layers[1].kernel.numpy(), loaded.layers[1].bias.numpy()
    zeros = [keras.ops.zeros_like(weight) for weight in loaded.trainable_weights]
    loaded.optimizer.apply(zeros, loaded.trainable_weights)
    np.testing.assert_array_equal(loaded.layers[1].kernel, before[0])
    np.testing.assert_allclose(loaded.layers[1].bias, before[1] * (1 - RATE * DECAY), rtol=1e-6)


def test_refuses_a_pattern_without_a_variable():
    optimizer = with_weight_decay_exclusions("sgd", ["kernel", "proxies"])
    with pytest.raises(ValueError, match=r"\['proxies'\] match none .*dense/kernel"):
        fitted(optimizer)


def test_refuses_what_is_no_regular_expression():
    with pytest.raises(ValueError, match=r"must be a regular expression, received '\('"):
        with_weight_decay_exclusions("sgd", ["("])
