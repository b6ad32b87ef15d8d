import keras
import numpy as np
import pytest
from gradients import EAGERLY

from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner, SaveBest, add_lora, merged_lora

RNG = np.random.default_rng(0)


def plain(variable):
    return keras.ops.convert_to_numpy(variable).copy()


def test_a_step_moves_what_the_gradient_of_the_matrices_says():
    """One step of SGD against the derivatives of `mean (x (W + s A B) H - t)²`, by hand."""
    inputs = keras.Input((5,))
    hidden, head = keras.layers.Dense(4, name="hidden"), keras.layers.Dense(2, use_bias=False)
    backbone = keras.Model(inputs, hidden(inputs))
    assert add_lora(backbone, rank=3, alpha=6.0) == ["hidden"]
    hidden.lora_kernel_b.assign(RNG.normal(size=(3, 4)))
    model = keras.Model(inputs, head(backbone(inputs)))
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=EAGERLY)
    before = {v.path: plain(v) for v in model.variables}
    x, t = RNG.normal(size=(6, 5)).astype("float32"), RNG.normal(size=(6, 2)).astype("float32")
    model.train_on_batch(x, t)

    a, b = before["hidden/lora_kernel_a"], before["hidden/lora_kernel_b"]
    w, h = before["hidden/kernel"] + 2.0 * a @ b, before[head.kernel.path]
    error = 2 * (x @ w @ h - t) / t.size
    of_kernel = x.T @ error @ h.T
    gradients = [2.0 * of_kernel @ b.T, 2.0 * a.T @ of_kernel, (x @ w).T @ error]
    trained = [hidden.lora_kernel_a, hidden.lora_kernel_b, head.kernel]
    assert [v.path for v in model.trainable_variables] == [v.path for v in trained]
    for variable, gradient in zip(trained, gradients, strict=True):
        expected = before[variable.path] - 0.1 * gradient
        np.testing.assert_allclose(plain(variable), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(plain(hidden._kernel), before["hidden/kernel"])
    np.testing.assert_array_equal(plain(hidden.bias), before["hidden/bias"])


def every_kind():
    """A network with every kind of layer that takes low-rank matrices, and some that do not."""
    inputs = keras.Input((6, 6, 3))
    x = keras.layers.Conv2D(8, 3, name="convolution")(inputs)
    x = keras.layers.BatchNormalization(name="normalization")(x)
    x = keras.layers.DepthwiseConv2D(3, name="depthwise")(x)
    x = keras.layers.Conv2D(8, 1, groups=2, use_bias=False, name="groups")(x)
    x = keras.layers.Reshape((4, 8))(x)
    x = keras.layers.EinsumDense("abc,cd->abd", (4, 6), bias_axes="d", name="einsum")(x)
    x = keras.layers.Dense(5, name="dense")(keras.layers.Flatten()(x))
    return keras.Model(inputs, x, name="network")


ABLE = ["convolution", "groups", "einsum", "dense"]


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_a_saved_learner_is_the_trained_one_in_plain_layers(tmp_path, precision):
    keras.config.set_dtype_policy(precision)
    network = every_kind()
    before = {v.path: plain(v) for v in network.variables}
    assert add_lora(network, rank=2, alpha=3.0) == ABLE
    learner = MetricLearner(network, ContrastiveLoss())
    learner.compile(keras.optimizers.Adam(0.05), run_eagerly=EAGERLY)
    images = RNG.normal(size=(8, 6, 6, 3)).astype("float32")
    learner.fit(images, np.arange(8) % 4, epochs=3, verbose=0)
    assert {v.path: v for v in network.variables}.keys() > before.keys()
    for variable in network.variables:  # nothing but the matrices has moved
        if variable.path in before:
            np.testing.assert_array_equal(plain(variable), before[variable.path])
    expected = plain(network(images)).astype("float32")

    best = SaveBest(tmp_path / "best.keras")
    best.set_model(learner)
    best.save()
    loaded = keras.models.load_model(best.path)
    assert not loaded.compiled and learner.get_compile_config() is not None
    loaded = loaded.embedder
    assert [v.path.split("/")[-2:] for v in loaded.variables] == [v.split("/")[-2:] for v in before]
    assert all(layer.get_config().get("lora_rank") is None for layer in loaded.layers)
    found = plain(loaded(images)).astype("float32")
    np.testing.assert_allclose(found, expected, atol=1e-5 if precision == "float32" else 0.05)
    pairs = zip(before.items(), loaded.variables, strict=True)
    moved = [path for (path, value), v in pairs if not np.array_equal(value, plain(v))]
    assert [path.split("/")[0] for path in moved] == ABLE
    # Saving has changed nothing of the model that trains.
    np.testing.assert_array_equal(plain(network(images)).astype("float32"), expected)
    learner.fit(images, np.arange(8) % 4, verbose=0)


def test_an_embedding_layer_is_merged():
    layer = keras.layers.Embedding(4, 3, name="words")
    inputs = keras.Input((2,), dtype="int32")
    model = keras.Model(inputs, layer(inputs))
    add_lora(model, rank=1)
    layer.lora_embeddings_b.assign(np.ones((1, 3)))
    expected = plain(model(np.array([[0, 3]])))
    with merged_lora(model):
        np.testing.assert_allclose(plain(layer.embeddings)[[0, 3]][None], expected, rtol=1e-6)
        assert layer.embeddings is layer.variables[0]


def quantizable():
    inputs = keras.Input((2,), dtype="int32")
    x = keras.layers.Embedding(6, 16, name="embedding")(inputs)
    x = keras.layers.EinsumDense("abc,cd->abd", (2, 16), bias_axes="d", name="einsum")(x)
    x = keras.layers.Dense(16, use_bias=False, name="dense")(keras.layers.Flatten()(x))
    return keras.Model(inputs, x)


@pytest.mark.parametrize("mode", ["int8", "int4", "float8"])
@pytest.mark.parametrize("quantizes_first", [True, False])
def test_a_quantized_layer_is_merged(tmp_path, mode, quantizes_first):
    """The file holds the function W + s A B of the model, up to rounding to the width again."""
    keras.utils.set_random_seed(0)
    model, names = quantizable(), ["embedding", "einsum", "dense"]
    if mode == "float8":
        names.remove("embedding")  # Keras has no such embedding
        model.get_layer("embedding").trainable = False
    steps = [lambda: model.quantize(mode), lambda: add_lora(model, rank=2, alpha=4.0)]
    for step in steps if quantizes_first else steps[::-1]:
        step()
    inputs = {
        "embedding": np.arange(6)[None],
        "einsum": RNG.normal(size=(3, 2, 16)).astype("float32"),
        "dense": RNG.normal(size=(3, 32)).astype("float32"),
    }
    expected = {}
    for name in names:
        layer = model.get_layer(name)
        assert layer.lora_enabled and layer.quantization_mode == mode
        for variable in layer.variables:
            if variable.name.startswith("lora"):
                variable.assign(RNG.normal(size=variable.shape))
        if mode == "float8":  # Keras cannot call such a layer
            change = plain(layer.lora_kernel_a) @ plain(layer.lora_kernel_b)
            kernel = plain(layer._kernel) + 2.0 * change
            expected[name] = inputs[name] @ kernel + (0.0 if layer.bias is None else layer.bias)
        else:
            expected[name] = plain(layer(inputs[name]))
    before = [plain(variable) for variable in model.variables]

    with merged_lora(model):
        model.save(tmp_path / "model.keras")
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(plain(variable), value)
    assert all(model.get_layer(name).lora_enabled for name in names)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert not any("lora" in variable.path for variable in loaded.variables)
    for name, values in expected.items():
        found = plain(loaded.get_layer(name)(inputs[name]))
        error = np.linalg.norm(found - values) / np.linalg.norm(values)
        assert error < {"int8": 0.02, "int4": 0.2, "float8": 0.06}[mode], name


def test_matrices_that_cannot_be_added_to_a_quantized_kernel_are_refused():
    model = quantizable()
    add_lora(model, rank=1, layers=["dense"])
    config = keras.quantizers.GPTQConfig(dataset=None, tokenizer=None, group_size=-1)
    model.get_layer("dense").quantize("gptq", config=config)
    message = "dense cannot be added .* quantized with 'gptq'"
    with pytest.raises(ValueError, match=message), merged_lora(model):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"layers": ["dense", "attention"]},
            r"\['attention'\] match none of the layers of network",
        ),
        ({"layers": ["depthwise"]}, r"\['depthwise'\] match none of .*matrices: \['convolution'"),
        ({"layers": ["("]}, "regular expression, received '\\('"),
        ({"rank": 0}, "rank must be .* received 0"),
        ({"alpha": 0.0}, "alpha must be positive"),
    ],
)
def test_what_changes_nothing_is_refused_before_the_network_is_frozen(arguments, message):
    model = every_kind()
    count = len(model.trainable_variables)
    with pytest.raises(ValueError, match=message):
        add_lora(model, **{"rank": 1, **arguments})
    assert len(model.trainable_variables) == count


def test_batch_normalisation_without_weights_is_frozen_too():
    inputs = keras.Input((4,))
    normalized = keras.layers.BatchNormalization(center=False, scale=False, name="normal")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2)(normalized))
    add_lora(model, rank=1)
    assert not model.get_layer("normal").trainable
