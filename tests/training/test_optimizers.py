import functools
import re

import keras
import numpy as np
import pytest

from gsp_tf._names import NAMES, named
from gsp_tf.training import (
    layer_wise_multipliers,
    with_learning_rate_multipliers,
    with_weight_decay_exclusions,
)


def gradients(step):
    rng = np.random.default_rng(step)
    return [keras.ops.convert_to_tensor(rng.normal(size=(3, 2)), "float32") for _ in range(3)]


def run(optimizer, steps=4):
    """The values of three variables, "first", "second" and "third", after some steps."""
    rng = np.random.default_rng(0)
    variables = [
        keras.Variable(rng.normal(size=(3, 2)), dtype="float32", name=name)
        for name in ("first", "second", "third")
    ]
    for step in range(steps):
        optimizer.apply(gradients(step), variables)
    optimizer.finalize_variable_values(variables)
    return [variable.numpy() for variable in variables]


def assert_multiplies(make):
    """Three variables move as at 10 times the rate, as at the rate, and not at all."""
    optimizer = make(0.02)
    result = run(with_learning_rate_multipliers(optimizer, {"first": 10, "third": 0}))
    multiplied, plain = run(make(0.2)), run(make(0.02))
    assert not np.allclose(multiplied[0], plain[0], rtol=1e-3)
    np.testing.assert_allclose(result[0], multiplied[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result[1], plain[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result[2], run(keras.optimizers.SGD(), steps=0)[2])


SETTINGS = (
    {"momentum": 0.9, "nesterov": True},
    {"clipnorm": 0.5},
    {"global_clipnorm": 0.5},
    {"clipvalue": 0.1, "weight_decay": 0.2},
    {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    {"gradient_accumulation_steps": 2, "weight_decay": 0.2},
    {"loss_scale_factor": 8.0},
)
MADE = {
    **{x: functools.partial(named("optimizer", x), weight_decay=0.3) for x in NAMES["optimizer"]},
    **{next(iter(given)): functools.partial(keras.optimizers.SGD, **given) for given in SETTINGS},
    "schedule": lambda rate: keras.optimizers.AdamW(
        keras.optimizers.schedules.ExponentialDecay(rate, 2, 0.1), weight_decay=0.3
    ),
    "function": lambda rate: keras.optimizers.Adam(lambda: rate),
}


@pytest.mark.parametrize("name", MADE)
def test_steps_are_those_at_a_multiple_of_the_rate(name):
    assert_multiplies(MADE[name])


def test_loss_scaling_with_a_step_that_is_skipped():
    def make(rate):
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(rate), initial_scale=4.0)

    optimizer = make(0.02)
    assert with_learning_rate_multipliers(optimizer, {"first": 10}) is optimizer
    assert_multiplies(make)
    variables = [keras.Variable(np.ones((3, 2)), name=name) for name in ("first", "second")]
    optimizer.apply([np.full((3, 2), np.inf, "float32")] * 2, variables)
    assert float(optimizer.dynamic_scale) == 2.0
    np.testing.assert_array_equal(variables[0], np.ones((3, 2)))


def test_the_first_pattern_that_is_found_counts():
    multipliers = {"^second$": 3.0, "s": 2.0, "third": 5.0}
    result = run(with_learning_rate_multipliers("sgd", multipliers), steps=1)
    initial = run(keras.optimizers.SGD(), steps=0)  # whose rate is 0.01
    for value, start, gradient, factor in zip(
        result, initial, gradients(0), (2, 3, 5), strict=True
    ):
        np.testing.assert_allclose(value, start - 0.01 * factor * np.asarray(gradient), rtol=1e-5)


def test_refuses_what_is_neither_a_factor_nor_a_pattern_nor_an_optimizer():
    for factor in (-1.0, float("nan"), float("inf"), "2", None):
        with pytest.raises(ValueError, match=rf"0 or more, received {factor!r} for 'first'"):
            with_learning_rate_multipliers("adam", {"first": factor})
    for pattern in ("(", "*", 3):
        with pytest.raises(ValueError, match="must be a regular expression, received"):
            with_learning_rate_multipliers("adam", {pattern: 1.0})
        with pytest.raises(ValueError, match="must be a regular expression, received"):
            with_weight_decay_exclusions("sgd", [pattern])
    with pytest.raises(ValueError, match="must be a list of texts, received the text 'bias'"):
        with_weight_decay_exclusions("sgd", "bias")
    used = keras.optimizers.Adam(name="used")
    run(used, steps=1)
    with pytest.raises(ValueError, match="'used' has been built"):
        with_learning_rate_multipliers(used, {"first": 2})
    several = keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(used, {}))
    with pytest.raises(ValueError, match="MultiOptimizer leaves its steps to other optimizers"):
        with_learning_rate_multipliers(several, {"first": 2})


RATE, DECAY = 0.1, 0.5


def after_a_step(optimizer):
    """A model after a step with gradients of zero: decay alone moves its weights, first all 1."""
    inputs = keras.Input((3,))
    x = keras.layers.Dense(2, kernel_initializer="ones", bias_initializer="ones", name="dense")(
        inputs
    )
    x = keras.layers.BatchNormalization(beta_initializer="ones", name="normalization")(x)
    model = keras.Model(inputs, x)
    model.compile(optimizer, "mse")
    weights = model.trainable_weights
    model.optimizer.apply([keras.ops.zeros_like(weight) for weight in weights], weights)
    return model


def decayed(model):
    """Paths of the weights that decay has moved, and by what factor."""
    values = {w.path: float(np.ravel(w)[0]) for w in model.trainable_weights}
    return {path: value for path, value in values.items() if value != 1}


@pytest.mark.parametrize("wrap", [lambda inner: inner, keras.optimizers.LossScaleOptimizer])
def test_decay_keeps_to_the_rest(wrap):
    optimizer = wrap(keras.optimizers.SGD(RATE, weight_decay=DECAY))
    model = after_a_step(with_weight_decay_exclusions(optimizer, ["(?i)GAMMA", "^dense/k"]))
    expected = pytest.approx(1 - RATE * DECAY)
    assert decayed(model) == {"dense/bias": expected, "normalization/beta": expected}


def test_exclusions_with_multipliers():
    optimizer = keras.optimizers.Adam(RATE, weight_decay=DECAY)
    with_weight_decay_exclusions(optimizer, ["gamma", "beta"])
    model = after_a_step(with_learning_rate_multipliers(optimizer, {"bias": 3}))
    assert decayed(model) == pytest.approx(
        {"dense/kernel": 1 - RATE * DECAY, "dense/bias": 1 - 3 * RATE * DECAY}
    )


def test_layer_wise_rates_fall_towards_the_input():
    """Of the trainable layers, one of which is within a block and named like another."""

    class Block(keras.layers.Layer):
        def build(self, shape):
            self.proj = keras.layers.Dense(4, name="proj")
            self.proj.build(shape)

        def call(self, x):
            return self.proj(x)

    inputs = keras.Input((4,))
    x = keras.layers.Dense(4, name="frozen", trainable=False)(inputs)
    x = keras.layers.Dense(4, name="proj")(x)
    model = keras.Model(inputs, Block(name="block")(x))
    factors = layer_wise_multipliers(model, 0.04)
    found = [
        next(x for pattern, x in factors.items() if re.search(pattern, variable.path))
        for variable in model.trainable_variables
    ]
    assert found == pytest.approx([0.04, 0.04, 0.2, 0.2])
    with pytest.raises(ValueError, match="above 0 and at most 1, received 0"):
        layer_wise_multipliers(model, 0)
