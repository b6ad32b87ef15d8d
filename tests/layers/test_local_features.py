"""What every layer on local features shares: layouts, masks, types, gradients, XLA and files."""

from functools import partial

import keras
import numpy as np
import processes
import pytest
from gradients import BACKEND, at_once, compiled, gradients
from keras import ops
from layer_examples import LAYERS
from local_maps import randomized

from gsp_tf import layers

MAP = (None, None, None, 5)
# Layers whose method needs to know which positions are neighbours.
GRID_ONLY = {"cbam", "smk"}
# Layers with constants, or biases, in what they make of no features.
BIASED = {"attention", "channel_grouping", "coded_residual", "coded_residual_shared"}


def each_but(*names):
    return pytest.mark.parametrize("name", [name for name in LAYERS if name not in names])


each = each_but()
each_on_sets = each_but(*GRID_ONLY)
each_with_weights = pytest.mark.parametrize(
    "name", [name for name, make in LAYERS.items() if hasattr(make(), "pooling_weights")]
)


def features_like(shape, seed=0, dtype="float32"):
    """Non-negative features, as after a ReLU."""
    return np.abs(np.random.default_rng(seed).normal(size=shape)).astype(dtype)


def value_and_gradients(layer, features, jit_compile=None, **kwargs):
    """Arrays: value, and gradients of it times fixed numbers w.r.t. features and weights."""
    if not layer.built:
        layer.build(features.shape)
    shape = layer.compute_output_shape(features.shape)
    upstream = np.random.default_rng(9).normal(size=shape).astype(layer.compute_dtype)

    def run(features):
        value, found = gradients(
            lambda features: layer(features, **kwargs),
            features,
            weights=layer.trainable_weights,
            upstream=ops.convert_to_tensor(upstream),
        )
        return value, *found

    run = at_once(run) if jit_compile is None else compiled(run, jit_compile)
    found = run(ops.convert_to_tensor(features))
    return [ops.convert_to_numpy(x) for x in found]


def assert_finite(arrays):
    assert all(np.isfinite(array).all() for array in arrays)


@each
def test_data_formats_give_the_same(name):
    features = features_like((2, 3, 4, 5))
    layer = randomized(LAYERS[name](), MAP)
    output = np.asarray(at_once(layer)(features))
    assert layer.compute_output_shape((2, 3, 4, 5)) == output.shape
    keras.config.set_image_data_format("channels_first")
    first = randomized(LAYERS[name](), (None, 5, None, None))
    transposed = np.asarray(at_once(first)(features.transpose(0, 3, 1, 2)))
    assert first.compute_output_shape((2, 5, 3, 4)) == transposed.shape
    is_map = name == "attention"
    transposed = transposed.transpose(0, 2, 3, 1) if is_map else transposed
    np.testing.assert_allclose(transposed, output, 1e-5, 1e-5)


@each
def test_dtype_policies(name):
    features = features_like((2, 4, 4, 5))
    expected = np.asarray(at_once(randomized(LAYERS[name](), MAP))(features))
    for policy in ("mixed_float16", "mixed_bfloat16", "float16", "float64"):
        layer = randomized(LAYERS[name](dtype=policy), MAP)
        output = at_once(layer)(features)
        assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
        error = np.abs(np.asarray(output, "float64") - expected).max() / np.abs(expected).max()
        assert error < {"float64": 1e-5, "mixed_bfloat16": 5e-2}.get(policy, 1e-2), policy
        if policy.startswith("mixed"):
            assert {weight.dtype for weight in layer.weights} <= {"float32"}


# XLA rewrites arithmetic. These hold every kind of computation: loops, linear systems, sorting,
# attention, groups, residuals. Those that are in neither list add nothing to the others' graphs.
ALWAYS_IN_XLA = [
    "attentive_grouping", "cbam", "coded_residual", "generalized_max", "generalized_max_cg", "gsop",
    "gsp_mean", "optimal_transport", "smk", "solar", "weldon",
]  # fmt: skip
MORE_IN_XLA = ["channel_grouping", "crow", "delf", "gate_grouping", "net_vlad"]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "name",
    [*ALWAYS_IN_XLA, *(pytest.param(name, marks=pytest.mark.evidence) for name in MORE_IN_XLA)],
)
def test_xla_gives_the_same(name):
    features = features_like((3, 3, 4, 5))
    features[0, 1, 2] = features[1] = 0
    layer = randomized(LAYERS[name](), MAP)
    expected = value_and_gradients(layer, features)
    assert_finite(expected)
    found = value_and_gradients(layer, features, jit_compile=True)
    for value, eager in zip(found, expected, strict=True):
        largest = np.abs(eager).max()
        np.testing.assert_allclose(value, eager, rtol=1e-4, atol=1e-5 * max(largest, 1.0))


# In the gradient of SMK the weights are held fixed by definition. Only batch normalisation computes
# something else in training.
@pytest.mark.parametrize(
    ("name", "training"),
    [*((name, {}) for name in LAYERS if name != "smk")]
    + [(name, {"training": True}) for name in ("gsop", "solar")],
)
def test_gradients_equal_finite_differences_in_float64(name, training):
    features = features_like((2, 3, 4, 5), seed=3, dtype="float64")
    layer = randomized(LAYERS[name](dtype="float64"), MAP)
    # PyTorch has no gradient of convolutions with kernels of float64 as Keras lays them out.
    single = name == "cbam" and BACKEND == "torch"
    differentiable = randomized(LAYERS[name](dtype="float32"), MAP) if single else layer
    _, *found = value_and_gradients(differentiable, features, **training)
    upstream = np.random.default_rng(9).normal(size=layer.compute_output_shape(features.shape))
    weights = [weight.numpy() for weight in layer.trainable_weights]
    fixed = [weight.value for weight in layer.non_trainable_variables]
    run = at_once(lambda *moved: layer.stateless_call(moved[1:], fixed, moved[0], **training)[0])
    rng = np.random.default_rng(1)

    for index, gradient in enumerate(found):
        direction = rng.normal(size=gradient.shape)
        values = []
        for step in (1e-6, -1e-6):
            moved = [features, *weights]
            moved[index] = moved[index] + step * direction
            output = run(*(ops.convert_to_tensor(np.asarray(x)) for x in moved))
            values.append(np.sum(np.asarray(output) * upstream))
        numeric = (values[0] - values[1]) / 2e-6
        rtol = 1e-4 if single else 2e-6
        assert np.sum(gradient * direction) == pytest.approx(numeric, rel=rtol, abs=1e-7)


@each
def test_extreme_features_are_finite(name):
    features = [features_like((2, 1, 1, 5)), np.zeros((2, 3, 3, 5), "float32")]
    scales = 1e30, 1e20, 1e19, 2.0**60, 1e15, 1e10, 2.0**-40, 1e-30
    features += [np.float32(scale) * features_like((2, 3, 4, 5)) for scale in scales]
    layer = LAYERS[name]()
    for each in features:
        value, gradient, *of_weights = value_and_gradients(layer, each)
        assert_finite([value, gradient])
        # A value near the limit of float32 has gradients of weights beyond it.
        assert not any(np.isnan(array).any() for array in of_weights)
        assert np.abs(value).max() > 1e36 or all(np.isfinite(x).all() for x in of_weights)


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        *((name, 1e13) for name in ("coded_residual", "coded_residual_shared")),
        *((name, scale) for name in ("delf", "gate_grouping") for scale in (1e13, 2e17)),
        *((name, scale) for name in ("attention", "gsop") for scale in (1e13, 1e19, 1e30)),
    ],
)
def test_large_features_give_the_values_of_float64(name, scale):
    features = np.float32(scale) * features_like((2, 3, 4, 5), seed=5)
    expected = np.asarray(at_once(randomized(LAYERS[name](dtype="float64"), MAP))(features))
    output = np.asarray(at_once(randomized(LAYERS[name](), MAP))(features))
    np.testing.assert_allclose(output, expected, 1e-4, 1e-5 * np.abs(expected).max())


@each_on_sets
def test_a_set_equals_a_map_in_any_order(name):
    features = features_like((2, 3, 4, 5))
    layer = randomized(LAYERS[name](), MAP)
    expected = at_once(layer)(features)
    order = np.random.default_rng(0).permutation(12)
    output = at_once(layer)(features.reshape(2, 12, 5)[:, order])
    if name == "attention":
        expected = np.reshape(expected, (2, 12, 5))[:, order]
    np.testing.assert_allclose(output, expected, 1e-4, 1e-5)


@each_on_sets
def test_a_masked_set_equals_the_shorter_set(name):
    features = features_like((2, 6, 5))
    mask = np.array([[1, 1, 0, 1, 0, 1], [0, 1, 0, 0, 0, 0]], bool)
    features[~mask] = np.nan
    layer = randomized(LAYERS[name](), MAP)
    output, gradient, *_ = value_and_gradients(layer, features, mask=mask)
    assert (gradient[~mask] == 0).all() and np.abs(gradient[mask]).sum() > 0
    for row in range(2):
        alone = layer(features[row : row + 1, mask[row]])
        found = output[row][mask[row]] if name == "attention" else output[row]
        np.testing.assert_allclose(found, alone[0], rtol=1e-4, atol=1e-5)


@each_on_sets
def test_a_set_that_is_masked_altogether_is_finite(name):
    layer = randomized(LAYERS[name](), MAP)
    value, *found = value_and_gradients(
        layer, features_like((1, 4, 5)), mask=np.zeros((1, 4), bool)
    )
    assert name in BIASED or (value == 0).all()
    assert_finite([value, *found])


@each_but("attention", *GRID_ONLY)
def test_no_mask_is_passed_on(name):
    tokens = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(20, 5, mask_zero=True)(tokens)
    model = keras.Model(tokens, keras.layers.Dense(2)(LAYERS[name]()(embedded)))
    short, padded = (model(np.array([row])) for row in ([3, 7, 5], [3, 7, 5, 0, 0]))
    np.testing.assert_allclose(padded, short, rtol=1e-4, atol=1e-6)


@each_with_weights
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e15])
def test_pooling_weights_are_a_distribution_over_positions(name, scale):
    features = scale * features_like((2, 3, 4, 5))
    mask = np.ones((2, 3, 4), bool)
    mask[:, 1:, 2] = False
    weights = np.asarray(LAYERS[name]().pooling_weights(features, mask=mask))
    assert weights.shape == (2, 3, 4)
    assert (weights >= 0).all() and (weights[~mask] == 0).all()
    np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-4)
    first = LAYERS[name](data_format="channels_first")
    unmasked = np.asarray(first.pooling_weights(features.transpose(0, 3, 1, 2)))
    assert unmasked.shape == (2, 3, 4)
    assert scale > 1 or (unmasked[~mask] > 0).all()


OTHERS = {
    "coded_residual_branches": partial(
        layers.CodedResidualBranches, (5, 6), (4, 3), 2, True, False, 0.2, 0.3, "orthogonal"
    ),
    "global_local": partial(layers.GlobalLocalEmbedding, 8, 16, 0.25, "single", False),
    "gsp_of_all_arguments": partial(
        layers.GeneralizedSumPooling, 5, 0.2, 7.0, "fixed_point", True, "orthogonal"
    ),
}


@pytest.mark.parametrize("name", [*LAYERS, *OTHERS])
def test_config_round_trip(name):
    make = (LAYERS | OTHERS)[name]
    layer = make(data_format="channels_first", name="layer", trainable=False)
    config = layer.get_config()
    assert type(layer).from_config(config).get_config() == config


@each
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5, 6)])
def test_refuses_input_that_is_neither_map_nor_set(name, shape):
    with pytest.raises(ValueError, match=r"received shape \(2, 3"):
        LAYERS[name]()(np.ones(shape, "float32"))


LOAD = """
import sys
import numpy as np
import tensorflow as tf
batches = [np.load(f"{size}.npy") for size in sys.argv[1:]]
sys.modules["gsp_tf"] = None
served = tf.saved_model.load("exported")
for size, batch in zip(sys.argv[1:], batches):
    np.savez(f"{size} served.npz", *served.serve(batch))
del sys.modules["gsp_tf"]
import keras, gsp_tf.layers
np.savez(f"{size} loaded.npz", *keras.models.load_model("model.keras")(batch))
"""


@pytest.mark.tensorflow
def test_all_load_in_another_process_and_serve_without_the_library(tmp_path):
    """Maps of any height and width, also of one position."""
    images = keras.Input((None, None, 3))
    local = keras.layers.Conv2D(5, 3, activation="relu")(images)
    x = keras.layers.Conv2D(5, 3, activation="relu")(local)
    outputs = []
    # These are parts of others, or come last with other arguments.
    for make in [make for name, make in LAYERS.items() if name not in ("gsp", "coded_residual")]:
        layer = make()
        outputs.append(layer(x))
        assert outputs[-1].shape == layer.compute_output_shape((None, None, None, 5))
    outputs.append(layers.GlobalLocalEmbedding(4, 3)([local, x]))
    outputs += layers.CodedResidualBranches((3, 5), (4, 6), 7)(x)
    outputs += layers.DenseBranches((4, 6))(layers.AverageMaxPooling()(x))
    outputs += layers.GeneralizedSumPooling(5, 0.2, 7.0, "fixed_point", True)(x)
    model = keras.Model(images, outputs)
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    batches = {"5x5": features_like((2, 5, 5, 3)), "9x7": features_like((2, 9, 7, 3))}
    for size, batch in batches.items():
        np.save(tmp_path / f"{size}.npy", batch)
    process = processes.run(LOAD, *batches, folder=tmp_path)
    assert process.returncode == 0, process.output
    expected = {size: model(batch) for size, batch in batches.items()}
    for file in ("5x5 served", "9x7 served", "9x7 loaded"):
        found = np.load(tmp_path / f"{file}.npz").values()
        for index, (value, output) in enumerate(zip(expected[file[:3]], found, strict=True)):
            np.testing.assert_allclose(output, value, 1e-4, 1e-5, err_msg=f"{index} {file}")
