import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import cdist
from scipy.special import log_softmax

from gsp_tf.losses import ProxyNCALoss


def loss_with(proxies, dtype="float32", **arguments):
    loss = ProxyNCALoss(len(proxies), dtype=dtype, **arguments)
    loss.build((None,), (None, proxies.shape[1]))
    loss.proxies.assign(proxies)
    return loss


def value_and_gradients(loss, labels, embeddings, jit_compile=False):
    embeddings = tf.convert_to_tensor(embeddings)

    def run(embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = loss(labels, embeddings)
        return value, *tape.gradient(value, [embeddings, loss.proxies.value])

    run = tf.function(run, jit_compile=True) if jit_compile else run
    value, *gradients = run(embeddings)
    return float(value), *(tf.cast(g, "float64").numpy() for g in gradients)


def batch(rows=10, columns=4, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    return labels, rng.normal(size=(rows, columns)), rng.normal(size=(classes, columns))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_equals_pytorch_metric_learning(oracle, jit_compile):
    case = oracle("losses_pml")
    key = "proxy_nca_scale9.0909"
    loss = loss_with(case[f"{key}_weights"], temperature=0.11)
    value, gradient, proxies_gradient = value_and_gradients(
        loss, case["labels"], case["embeddings"], jit_compile
    )
    assert value == pytest.approx(case[f"{key}_loss"], rel=2e-4)
    np.testing.assert_allclose(gradient, case[f"{key}_grad"], rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(proxies_gradient, case[f"{key}_grad_weights"], rtol=2e-3, atol=1e-6)


def test_equals_the_authors_code_at_twice_their_temperature(oracle):
    case = oracle("losses_original")
    key = "proxy_nca_0.11"
    order = np.argsort(case[f"{key}_proxy_labels"])
    loss = loss_with(case[f"{key}_proxies"][order], temperature=2 * 0.11)
    value, gradient, proxies_gradient = value_and_gradients(
        loss, case["labels"], case["embeddings"]
    )
    assert value == pytest.approx(case[f"{key}_loss"], rel=2e-4)
    # Their gradient is that of a unit vector, ours goes through the normalisation.
    unit, theirs = case["embeddings"], case[f"{key}_grad"]
    tangent = theirs - np.sum(theirs * unit, axis=1, keepdims=True) * unit
    np.testing.assert_allclose(gradient, tangent, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(
        proxies_gradient, case[f"{key}_grad_proxies"][order], rtol=2e-3, atol=1e-6
    )


def test_equals_the_definition():
    labels, embeddings, proxies = batch()
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (embeddings, proxies)]
    log_probabilities = log_softmax(-(cdist(*unit) ** 2) / 0.3, axis=1)
    expected = -np.mean(log_probabilities[np.arange(len(labels)), labels])
    for given_labels in (labels, labels[:, None], labels.astype("uint8")):
        loss = loss_with(proxies, "float64", temperature=0.3)
        assert float(loss(given_labels, embeddings)) == pytest.approx(expected, rel=1e-9)


def test_gradients_equal_finite_differences():
    labels, embeddings, proxies = batch(4)
    _, *gradients = value_and_gradients(loss_with(proxies, "float64"), labels, embeddings)
    for which, point in enumerate((embeddings, proxies)):
        for index in np.ndindex(*point.shape):
            values = []
            for sign in (1, -1):
                moved = [embeddings.copy(), proxies.copy()]
                moved[which][index] += sign * 1e-6
                values.append(float(loss_with(moved[1], "float64")(labels, moved[0])))
            numeric = (values[0] - values[1]) / 2e-6
            assert gradients[which][index] == pytest.approx(numeric, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        *(("float16", fill) for fill in (0.0, 1e-2, 1.0, 6e4)),
        *(("bfloat16", fill) for fill in (0.0, 1e-8, 1.0, 1e18)),
        *(("float32", fill) for fill in (0.0, 1e-8, 1.0, 1e18)),
    ],
)
@pytest.mark.parametrize("temperature", [1e-2, 1e4])
def test_finite_for_degenerate_batches(fill, dtype, temperature):
    proxies = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 0]])
    loss = loss_with(proxies, temperature=temperature)
    for labels in ([0, 1, 2], [2, 2, 2]):
        embeddings = tf.cast(tf.fill((3, 3), fill), dtype)
        value, *gradients = value_and_gradients(loss, np.array(labels), embeddings)
        assert np.isfinite(value) and all(np.isfinite(g).all() for g in gradients)


def test_one_class_costs_nothing():
    value, *gradients = value_and_gradients(
        loss_with(np.ones((1, 3))), np.zeros(4, int), np.eye(4, 3, dtype="float32")
    )
    assert value == 0
    assert all((g == 0).all() for g in gradients)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_float32_under_every_global_policy(policy):
    labels, embeddings, proxies = batch(columns=64)
    expected = float(loss_with(proxies)(labels, embeddings.astype("float32")))
    keras.config.set_dtype_policy(policy)
    loss = ProxyNCALoss(3)
    half = tf.cast(embeddings, policy.removeprefix("mixed_"))
    value = loss(labels, half)
    assert loss.proxies.dtype == "float32" and value.dtype == tf.float32
    loss.proxies.assign(proxies)
    assert float(loss(labels, half)) == pytest.approx(expected, rel=1e-2)


def test_gradient_descent_finds_the_classes():
    labels, embeddings, _ = batch(30, 8)
    embeddings = embeddings.astype("float32")
    loss = ProxyNCALoss(3)
    first = float(loss(labels, embeddings))
    optimizer = keras.optimizers.Adam(0.05)
    proxies = loss.proxies.numpy()
    for _ in range(40):
        with tf.GradientTape() as tape:
            value = loss(labels, embeddings)
        optimizer.apply(tape.gradient(value, [loss.proxies.value]), [loss.proxies])
    assert float(loss(labels, embeddings)) < 0.7 * first
    assert not np.array_equal(loss.proxies, proxies)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, "num_classes must be at least 1, received 0"),
        ({"num_classes": 2, "temperature": 0.0}, "temperature must be positive, received 0.0"),
        ({"num_classes": 2, "temperature": -1.0}, "temperature must be positive, received -1.0"),
        ({"num_classes": 2, "temperature": float("nan")}, "temperature must be positive"),
    ],
)
def test_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ProxyNCALoss(**arguments)


def test_config_round_trip():
    loss = ProxyNCALoss(7, temperature=0.3, name="proxies_of_seven")
    twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert isinstance(twin, ProxyNCALoss)
    assert twin.get_config() == loss.get_config()
    assert (twin.num_classes, twin.temperature) == (7, 0.3)


def test_shape_of_the_proxies_and_of_the_loss():
    loss = ProxyNCALoss(7)
    assert loss.compute_output_shape((None,), (None, 5)) == ()
    loss.build((None, 1), (None, 5))
    assert [(w.name, w.shape) for w in loss.trainable_weights] == [("proxies", (7, 5))]
