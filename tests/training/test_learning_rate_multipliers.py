import inspect
import subprocess
import sys

import keras
import numpy as np
import pytest

from gsp_tf.losses import ProxyNCALoss
from gsp_tf.training import (
    MetricLearner,
    with_learning_rate_multipliers,
    with_weight_decay_exclusions,
)


def is_complete(optimizer_class):
    """Whether a class can be made with its defaults and takes steps itself."""
    try:
        return optimizer_class().update_step.__func__ is not keras.optimizers.Optimizer.update_step
    except (TypeError, AttributeError):
        return False


OPTIMIZERS = {
    name: member
    for name, member in vars(keras.optimizers).items()
    if inspect.isclass(member) and is_complete(member)
}


@keras.saving.register_keras_serializable("gsp_tf_tests")
class SignDescent(keras.optimizers.Optimizer):
    """An optimizer of a user, with a state and a setting of its own."""

    def __init__(self, learning_rate=0.01, memory=0.5, **kwargs):
        super().__init__(learning_rate, **kwargs)
        self.memory = memory

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.means = self.add_optimizer_variables(variables, "mean")

    def update_step(self, gradient, variable, learning_rate):
        mean = self.means[self._get_variable_index(variable)]
        self.assign(mean, self.memory * mean + gradient)
        self.assign_sub(variable, keras.ops.sign(mean) * learning_rate)

    def get_config(self):
        return {**super().get_config(), "memory": self.memory}


def gradients(step):
    rng = np.random.default_rng(step)
    return [keras.ops.convert_to_tensor(rng.normal(size=(3, 2)), "float32") for _ in range(2)]


def run(optimizer, steps=4):
    """The values of two variables, "first" and "second", after some steps."""
    rng = np.random.default_rng(0)
    variables = [
        keras.Variable(rng.normal(size=(3, 2)), dtype="float32", name=name)
        for name in ("first", "second")
    ]
    for step in range(steps):
        optimizer.apply(gradients(step), variables)
    optimizer.finalize_variable_values(variables)
    return [variable.numpy() for variable in variables]


def assert_multiplies(make, factor=10.0, rate=0.02, steps=4, **tolerance):
    """The first variable goes as at `factor` times the rate, the second as at the rate itself."""
    optimizer = make(rate)
    result = run(with_learning_rate_multipliers(optimizer, {"first": factor}), steps)
    multiplied, plain = run(make(factor * rate), steps), run(make(rate), steps)
    assert not np.allclose(multiplied[0], plain[0], rtol=1e-3)
    tolerance = {"rtol": 1e-5, "atol": 1e-6, **tolerance}
    np.testing.assert_allclose(result[0], multiplied[0], **tolerance)
    np.testing.assert_allclose(result[1], plain[1], **tolerance)


def test_the_list_of_optimizers_is_that_of_keras():
    assert {"Adam", "AdamW", "Adafactor", "Ftrl", "Lamb", "Lion", "Nadam", "RMSprop", "SGD"} <= set(
        OPTIMIZERS
    )


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize("settings", [{}, {"weight_decay": 0.3}], ids=["plain", "decay"])
def test_steps_are_those_at_a_multiple_of_the_rate(name, settings):
    assert_multiplies(lambda rate: OPTIMIZERS[name](rate, **settings))


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_zero_holds_a_variable_still(name):
    optimizer = OPTIMIZERS[name](0.1, weight_decay=0.5)
    initial = run(OPTIMIZERS[name](0.1), steps=0)
    result = run(with_learning_rate_multipliers(optimizer, {"first": 0}))
    np.testing.assert_array_equal(result[0], initial[0])
    assert not np.allclose(result[1], initial[1], rtol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        {"momentum": 0.9, "nesterov": True},
        {"clipnorm": 0.5},
        {"global_clipnorm": 0.5},
        {"clipvalue": 0.1, "weight_decay": 0.2},
        {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
        {"gradient_accumulation_steps": 2, "weight_decay": 0.2},
        {"loss_scale_factor": 8.0},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_of_the_optimizer(settings):
    assert_multiplies(lambda rate: keras.optimizers.SGD(rate, **settings))


def test_a_schedule_is_multiplied():
    schedule = keras.optimizers.schedules.ExponentialDecay
    assert_multiplies(lambda rate: keras.optimizers.AdamW(schedule(rate, 2, 0.1), weight_decay=0.3))


def test_a_rate_that_is_a_function_is_multiplied():
    assert_multiplies(lambda rate: keras.optimizers.Adam(lambda: rate))


def test_an_optimizer_of_a_user():
    assert_multiplies(lambda rate: SignDescent(rate, memory=0.2, weight_decay=0.1))


def test_exclusions_from_weight_decay_are_kept():
    optimizer = keras.optimizers.SGD(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["second"])
    result = run(with_learning_rate_multipliers(optimizer, {"first": 2.0}))
    np.testing.assert_array_equal(result[1], run(keras.optimizers.SGD(0.1))[1])
    decayed = run(keras.optimizers.SGD(0.2, weight_decay=0.5))[0]
    np.testing.assert_allclose(result[0], decayed, rtol=1e-5)


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
    optimizer = keras.optimizers.SGD(0.1)
    multipliers = {"^second$": 3.0, "s": 2.0}
    result = run(with_learning_rate_multipliers(optimizer, multipliers), steps=1)
    initial = run(keras.optimizers.SGD(0.1), steps=0)
    for value, start, gradient, factor in zip(result, initial, gradients(0), (2, 3), strict=True):
        np.testing.assert_allclose(value, start - 0.1 * factor * np.asarray(gradient), rtol=1e-5)


def linear_model(optimizer, **arguments):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="linear")])
    model.compile(optimizer, loss="mse", **arguments)
    return model


def regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 3)).astype("float32")
    return x, x[:, :2] - 2 * x[:, 1:]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_fit(jit_compile):
    weights = []
    for optimizer in (
        with_learning_rate_multipliers(keras.optimizers.Adam(0.01), {"kernel|bias": 5}),
        keras.optimizers.Adam(0.05),
    ):
        model = linear_model(optimizer, jit_compile=jit_compile)
        model.fit(*regression(), batch_size=8, epochs=3, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for value, expected in zip(*weights, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4)


@pytest.mark.parametrize(
    "callback",
    [
        lambda: keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / (epoch + 1)),
        # No epoch betters the first one by that much.
        lambda: keras.callbacks.ReduceLROnPlateau("loss", factor=0.1, patience=1, min_delta=1e3),
    ],
    ids=["scheduler", "plateau"],
)
def test_callbacks_that_set_the_rate(callback):
    weights, rates = [], []
    for optimizer in (
        with_learning_rate_multipliers(keras.optimizers.SGD(0.01), {"linear": 5}),
        keras.optimizers.SGD(0.05),
    ):
        model = linear_model(optimizer)
        history = model.fit(
            *regression(), epochs=4, shuffle=False, verbose=0, callbacks=[callback()]
        ).history
        weights.append(model.get_weights())
        rates.append(np.array(history["learning_rate"]))
    assert rates[0][-1] < 0.1 * rates[0][0]
    np.testing.assert_allclose(5 * rates[0], rates[1], rtol=1e-5)
    for value, expected in zip(*weights, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4)


def learner_with(optimizer):
    keras.utils.set_random_seed(0)
    embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    learner = MetricLearner(embedder, ProxyNCALoss(2))
    learner.compile(optimizer)
    return learner


def samples():
    return np.random.default_rng(0).normal(size=(8, 4)).astype("float32"), np.arange(8) % 2


def test_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    learner = learner_with(with_learning_rate_multipliers("adam", {"kernel": 0}))
    assert isinstance(learner.optimizer, keras.optimizers.LossScaleOptimizer)
    kernel, proxies = learner.embedder.layers[-1].kernel, learner.embedding_loss.proxies
    before = kernel.numpy(), proxies.numpy()
    learner.fit(*samples(), epochs=8, verbose=0)
    np.testing.assert_array_equal(kernel, before[0])
    assert not np.allclose(proxies, before[1])


LOAD_AND_CONTINUE = """
import sys
import numpy as np
import keras
import gsp_tf.training
learner = keras.models.load_model(sys.argv[1])
data = np.load(sys.argv[2])
learner.fit(data["x"], data["y"], epochs=2, shuffle=False, verbose=0)
np.savez(sys.argv[3], learner.optimizer.iterations, *learner.trainable_weights)
"""


@pytest.mark.parametrize("scaled", [False, True])
def test_a_saved_learner_continues_in_a_fresh_process(tmp_path, scaled):
    schedule = keras.optimizers.schedules.CosineDecay(0.01, 20)
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.5)
    optimizer = keras.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer
    multipliers = {"proxies": 20.0, "prox|bias": 0.0}
    learner = learner_with(
        with_weight_decay_exclusions(
            with_learning_rate_multipliers(optimizer, multipliers), ["kernel"]
        )
    )
    x, labels = samples()
    learner.fit(x, labels, epochs=2, shuffle=False, verbose=0)
    learner.save(tmp_path / "learner.keras")
    np.savez(tmp_path / "data.npz", x=x, y=labels)
    paths = [str(tmp_path / name) for name in ("learner.keras", "data.npz", "out.npz")]
    subprocess.run([sys.executable, "-c", LOAD_AND_CONTINUE, *paths], check=True)
    iterations, *weights = np.load(tmp_path / "out.npz").values()
    learner.fit(x, labels, epochs=2, shuffle=False, verbose=0)
    assert iterations == 2 + 2
    for value, expected in zip(weights, learner.trainable_weights, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, err_msg=expected.path)


def test_the_saved_form():
    optimizer = SignDescent(0.2, memory=0.25, name="mine", clipnorm=3.0)
    multipliers = {"b": 2.0, "a": 0.5}
    with_learning_rate_multipliers(optimizer, multipliers)
    saved = keras.optimizers.serialize(optimizer)
    assert saved["config"]["optimizer"]["registered_name"] == "gsp_tf_tests>SignDescent"
    loaded = keras.optimizers.deserialize(saved)
    assert type(loaded) is type(optimizer) and isinstance(loaded, SignDescent)
    assert (loaded.memory, loaded.name, loaded.clipnorm) == (0.25, "mine", 3.0)
    assert float(loaded.learning_rate) == pytest.approx(0.2)
    assert list(loaded.learning_rate_multipliers.items()) == list(multipliers.items())
    assert loaded.get_config() == optimizer.get_config()


def test_building_again_changes_nothing():
    optimizer = with_learning_rate_multipliers(keras.optimizers.SGD(0.1), {"first": 0})
    variables = [keras.Variable(np.ones(2), name=name) for name in ("first", "second")]
    optimizer.build(variables)
    optimizer.build(variables[1:])
    optimizer.apply([np.ones(2, "float32")] * 2, variables)
    assert [float(variable[0]) for variable in variables] == pytest.approx([1.0, 0.9])


def test_other_optimizers_of_the_class_are_left_alone():
    with_learning_rate_multipliers(keras.optimizers.Adam(0.1), {"first": 5})
    plain = keras.optimizers.Adam(0.1)
    assert type(plain) is keras.optimizers.Adam
    second = with_learning_rate_multipliers(keras.optimizers.Adam(0.1), {"second": 3})
    assert dict(second.learning_rate_multipliers) == {"second": 3.0}


@pytest.mark.parametrize("factor", [-1.0, float("nan"), float("inf"), "2", None])
def test_refuses_a_factor(factor):
    with pytest.raises(ValueError, match=rf"0 or more, received {factor!r} for 'first'"):
        with_learning_rate_multipliers("adam", {"first": factor})


@pytest.mark.parametrize("pattern", ["(", "*", 3])
def test_refuses_what_is_no_regular_expression(pattern):
    with pytest.raises(ValueError, match="must be a regular expression, received"):
        with_learning_rate_multipliers("adam", {pattern: 1.0})


@pytest.mark.parametrize("wrap", [lambda inner: inner, keras.optimizers.LossScaleOptimizer])
def test_refuses_a_pattern_without_a_variable(wrap):
    optimizer = with_learning_rate_multipliers(
        wrap(keras.optimizers.Adam()), {"third": 2, "first": 1}
    )
    with pytest.raises(ValueError, match=r"\['third'\] match none .* \['first', 'second'\]"):
        run(optimizer)


def test_refuses_an_optimizer_in_use():
    optimizer = keras.optimizers.Adam(name="used")
    run(optimizer, steps=1)
    with pytest.raises(ValueError, match="'used' has been built"):
        with_learning_rate_multipliers(optimizer, {"first": 2})


def test_refuses_an_optimizer_of_optimizers():
    several = keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(keras.optimizers.Adam(), {"first": keras.optimizers.SGD()})
    )
    with pytest.raises(ValueError, match="MultiOptimizer leaves its steps to other optimizers"):
        with_learning_rate_multipliers(several, {"first": 2})


def test_refuses_what_is_no_optimizer():
    with pytest.raises(ValueError, match="optimizer"):
        with_learning_rate_multipliers(3, {"first": 2})
