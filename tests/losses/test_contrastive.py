import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from gsp_tf.losses import ContrastiveLoss
from gsp_tf.losses.pair import PairLoss


def value_and_gradient(loss, labels, embeddings, jit_compile=False):
    embeddings = tf.convert_to_tensor(embeddings)

    def run(embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = loss(labels, embeddings)
        return value, tape.gradient(value, embeddings)

    run = tf.function(run, jit_compile=True) if jit_compile else run
    value, gradient = run(embeddings)
    return float(value), tf.cast(gradient, "float64").numpy()


def brute_force(anchor_labels, anchors, reference_labels, references, margins, skip_diagonal):
    """The definition, pair by pair."""
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (anchors, references)]
    distances = cdist(*unit)
    attractions, repulsions = [], []
    for i, j in np.ndindex(*distances.shape):
        if anchor_labels[i] != reference_labels[j]:
            repulsions.append(max(0.0, margins[1] - distances[i, j]))
        elif not (skip_diagonal and i == j):
            attractions.append(max(0.0, distances[i, j] - margins[0]))
    means = [np.mean([t for t in terms if t > 0] or [0.0]) for terms in (attractions, repulsions)]
    return sum(means)


def batch(rows=12, columns=5, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, rows), rng.normal(size=(rows, columns))


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("margins", ["0_0.3841", "0.2652_0.5409"])
@pytest.mark.parametrize(
    ("name", "key", "normalize"),
    [("losses_original", "contrastive_c2", False), ("losses_pml", "contrastive", True)],
)
def test_equals_other_programs(oracle, name, key, normalize, margins, jit_compile):
    case = oracle(name)
    loss = ContrastiveLoss(*map(float, margins.split("_")), normalize=normalize)
    value, gradient = value_and_gradient(loss, case["labels"], case["embeddings"], jit_compile)
    assert value == pytest.approx(case[f"{key}_{margins}_loss"], rel=2e-4)
    np.testing.assert_allclose(gradient, case[f"{key}_{margins}_grad"], rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("normalize", [True, False])
def test_gradient_equals_finite_differences(normalize):
    labels, embeddings = batch(8, 4)
    loss = ContrastiveLoss(0.2, 1.5, normalize=normalize)
    _, gradient = value_and_gradient(loss, labels, embeddings)
    assert np.abs(gradient).max() > 1e-3
    for index in np.ndindex(*embeddings.shape):
        shift = np.zeros_like(embeddings)
        shift[index] = 1e-6
        numeric = (loss(labels, embeddings + shift) - loss(labels, embeddings - shift)) / 2e-6
        assert gradient[index] == pytest.approx(float(numeric), rel=1e-6, abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    anchors=st.integers(1, 9),
    references=st.integers(1, 9),
    classes=st.integers(1, 4),
    positive_margin=st.sampled_from([0.0, 0.3, 1.9]),
    negative_margin=st.sampled_from([0.0, 0.5, 1.4, 2.0]),
    exclude_self=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_equals_the_definition(
    anchors, references, classes, positive_margin, negative_margin, exclude_self, seed
):
    references = max(anchors, references) if exclude_self else references
    labels, x = batch(anchors, 3, classes, seed)
    reference_labels, y = batch(references, 3, classes, seed + 1)
    if exclude_self:
        reference_labels[:anchors], y[:anchors] = labels, x
    margins = positive_margin, negative_margin
    value = ContrastiveLoss(*margins).pairwise(labels, x, reference_labels, y, exclude_self)
    expected = brute_force(labels, x, reference_labels, y, margins, exclude_self)
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_batch_is_its_own_references():
    labels, embeddings = batch()
    loss = ContrastiveLoss(0.1, 1.0)
    alone = float(loss(labels, embeddings))
    arguments = labels, embeddings, labels, embeddings
    assert float(loss.pairwise(*arguments, exclude_self=True)) == alone
    assert alone > 0
    # With a negative positive margin a sample costs something at distance 0 from itself.
    loss = ContrastiveLoss(-1.0, 1.0)
    assert float(loss.pairwise(*arguments)) != pytest.approx(float(loss(labels, embeddings)))


def test_references_may_be_fewer_and_get_a_gradient():
    labels, x = batch(6)
    reference_labels, y = batch(4, seed=1)
    references = tf.constant(y)
    with tf.GradientTape() as tape:
        tape.watch(references)
        value = ContrastiveLoss(0.0, 1.5).pairwise(labels, x, reference_labels, references)
    gradient = tape.gradient(value, references)
    assert (np.abs(gradient).max(axis=1) > 0).all()


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 16),
    classes=st.integers(1, 6),
    scale=st.sampled_from([1e-6, 1e-2, 1.0, 1e5]),
    names=st.lists(st.integers(-(2**62), 2**62), min_size=6, max_size=6, unique=True),
    seed=st.integers(0, 1000),
)
def test_order_scale_and_names_do_not_matter(rows, classes, scale, names, seed):
    labels, embeddings = batch(rows, 4, classes, seed)
    loss = ContrastiveLoss(0.1, 1.2)
    value, gradient = value_and_gradient(loss, labels, embeddings)
    order = np.random.default_rng(seed).permutation(rows)
    moved_value, moved_gradient = value_and_gradient(
        loss, np.array(names)[labels[order]], scale * embeddings[order]
    )
    assert moved_value == pytest.approx(value, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(scale * moved_gradient, gradient[order], rtol=1e-6, atol=1e-9)


ALL_EQUAL, ALL_DIFFERENT = np.zeros(4, int), np.arange(4)
SPREAD = np.array([[1.0, 0, 0], [0.6, 0.8, 0], [0, 0.6, 0.8], [0.8, 0, 0.6]])


@pytest.mark.parametrize(
    ("dtype", "jit_compile"),
    [("float16", False), ("float16", True), ("bfloat16", False), ("float32", False)],
)
@pytest.mark.parametrize(
    ("labels", "embeddings", "expected"),
    [
        # One class: no negative; distances within the positive margin cost nothing either.
        (ALL_EQUAL, np.ones((4, 3)), 0.0),
        # All different: no positive.
        (ALL_DIFFERENT, 1.0 - 2.0 * np.eye(4), 0.0),
        ([5], np.ones((1, 3)), 0.0),
        (ALL_EQUAL, np.zeros((4, 3)), 0.0),
        # Coincident negatives cost the whole margin, and have no direction to go.
        (ALL_DIFFERENT, np.zeros((4, 3)), 0.5),
        (ALL_DIFFERENT, np.ones((4, 3)), 0.5),
        (ALL_DIFFERENT, np.full((4, 3), 6e4), 0.5),
        (ALL_DIFFERENT, np.full((4, 3), 6e-8), 0.5),
    ],
)
def test_degenerate_batches(labels, embeddings, expected, dtype, jit_compile):
    value, gradient = value_and_gradient(
        ContrastiveLoss(), np.asarray(labels), tf.cast(embeddings, dtype), jit_compile
    )
    assert value == expected
    np.testing.assert_array_equal(gradient, np.zeros_like(embeddings))


@pytest.mark.parametrize("labels", [ALL_EQUAL, ALL_DIFFERENT])
def test_an_empty_term_adds_nothing(labels):
    value, gradient = value_and_gradient(ContrastiveLoss(0.0, 2.0), labels, SPREAD)
    pairs = cdist(SPREAD, SPREAD)[~np.eye(4, dtype=bool)]
    expected = pairs.mean() if labels is ALL_EQUAL else (2 - pairs).mean()
    assert value == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0


@pytest.mark.parametrize("jit_compile", [None, False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_embeddings_that_are_not_finite_show_in_the_loss(value, jit_compile):
    labels, embeddings = batch()
    embeddings[3, 1] = value
    loss = ContrastiveLoss()
    run = loss if jit_compile is None else tf.function(loss, jit_compile=jit_compile)
    assert np.isnan(run(labels, embeddings))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-3), ("bfloat16", 4e-2)])
def test_half_precision(dtype, tolerance):
    labels, embeddings = batch(columns=16)
    loss = ContrastiveLoss(0.0, 1.5)
    value, gradient = value_and_gradient(loss, labels, tf.cast(300.0 * embeddings, dtype))
    assert value == pytest.approx(float(loss(labels, embeddings)), rel=tolerance)
    assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_labels_of_any_integer_type(dtype):
    labels, embeddings = batch()
    loss = ContrastiveLoss(0.0, 1.5)
    expected = float(loss(labels, embeddings))
    for given_labels in (labels, labels[:, None]):
        assert float(loss(given_labels.astype(dtype), embeddings)) == expected


@pytest.mark.parametrize(
    ("first", "dtype"), [(2**24, "int32"), (2**30, "int32"), (2**53, "int64"), (2**63, "uint64")]
)
def test_large_labels_are_distinguished(first, dtype):
    labels = first + np.arange(3).astype(dtype)
    value = ContrastiveLoss()(labels.tolist() if dtype == "int32" else labels, np.ones((3, 2)))
    assert value == 0.5


def embedding_model(columns=5):
    return keras.Sequential([keras.Input((columns,)), keras.layers.Dense(4)])


@pytest.mark.parametrize(("jit_compile", "column"), [(False, True), (True, False)])
def test_compiled_loss_equals_the_loss_of_the_embeddings(jit_compile, column):
    _, features = batch(8)
    # Neighbours that float32 cannot tell apart: it would take them for one class.
    labels = 2**24 + np.array([0, 0, 1, 1, 2, 2, 3, 3])
    assert len(set(labels.astype("float32"))) < 4
    given_labels = labels[:, None] if column else labels
    model = embedding_model()
    loss = ContrastiveLoss(0.0, 1.5)
    model.compile(optimizer="sgd", loss=loss, jit_compile=jit_compile)
    expected = float(loss(labels, model(features)))
    assert model.evaluate(features, given_labels, verbose=0) == pytest.approx(expected, rel=1e-5)
    history = model.fit(features, given_labels, batch_size=8, epochs=3, verbose=0).history["loss"]
    assert history[0] == pytest.approx(expected, rel=1e-5)
    data = tf.data.Dataset.from_tensor_slices((features, given_labels)).batch(8)
    assert model.evaluate(data, verbose=0) == pytest.approx(
        float(loss(labels, model(features))), rel=1e-5
    )
    assert model.fit(data, verbose=0).history["loss"][0] < history[0]


@pytest.mark.parametrize("weights", [{"sample_weight": np.ones(4)}, {"class_weight": {0: 2.0}}])
def test_compiled_loss_refuses_sample_weights(weights):
    model = embedding_model()
    model.compile(optimizer="sgd", loss=ContrastiveLoss())
    with pytest.raises(ValueError, match="takes no sample_weight"):
        model.fit(np.ones((4, 5)), np.zeros(4, int), verbose=0, **weights)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_compiled_loss_is_saved_with_the_model(tmp_path, policy):
    keras.config.set_dtype_policy(policy)
    labels, features = batch()
    model = embedding_model()
    model.compile(optimizer="adam", loss=ContrastiveLoss(0.1, 1.5, normalize=False))
    model.fit(features, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.loss, ContrastiveLoss)
    assert loaded.loss.get_config() == model.loss.get_config()
    np.testing.assert_array_equal(loaded.predict(features, verbose=0), model.predict(features))
    histories = [m.fit(features, labels, epochs=2, verbose=0).history for m in (model, loaded)]
    np.testing.assert_allclose(histories[1]["loss"], histories[0]["loss"], rtol=1e-3)


def nearest_neighbour_accuracy(embeddings, labels):
    distances = cdist(embeddings, embeddings) + 1e9 * np.eye(len(labels))
    return np.mean(labels[distances.argmin(1)] == labels)


def test_fit_separates_the_classes():
    # Eight points in three columns, drowned in the noise of the other twelve.
    rng = np.random.default_rng(0)
    labels = np.arange(256) % 8
    informative = 2 * rng.normal(size=(8, 3))[labels] + 0.1 * rng.normal(size=(256, 3))
    features = np.concatenate([informative, 4 * rng.normal(size=(256, 12))], 1).astype("float32")
    train, test = slice(0, 128), slice(128, None)
    assert nearest_neighbour_accuracy(features[test], labels[test]) < 0.3
    model = keras.Sequential([keras.Input((15,)), keras.layers.Dense(16)])
    model.compile(keras.optimizers.Adam(0.01), loss=ContrastiveLoss(0.0, 1.0))
    data = tf.data.Dataset.from_tensor_slices((features[train], labels[train])).batch(64)
    model.fit(data, epochs=60, verbose=0)
    embeddings = model.predict(features[test], verbose=0)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    assert nearest_neighbour_accuracy(embeddings, labels[test]) > 0.95


def test_config_round_trip():
    loss = ContrastiveLoss(0.1, 0.7, normalize=False, name="pairs")
    twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert isinstance(twin, ContrastiveLoss) and isinstance(twin, PairLoss)
    assert twin.get_config() == loss.get_config()
    assert (twin.positive_margin, twin.negative_margin, twin.normalize) == (0.1, 0.7, False)


@pytest.mark.parametrize(
    ("labels", "embeddings"),
    [
        (np.zeros((3, 3), int), np.ones((3, 4), "float32")),
        (np.zeros(2, int), np.ones((3, 4), "float32")),
        (np.zeros(3, int), np.ones(3, "float32")),
    ],
)
def test_shapes_that_do_not_fit_are_refused(labels, embeddings):
    with pytest.raises(ValueError, match=r"takes integer labels \(B,\) or \(B, 1\).*received"):
        ContrastiveLoss()(labels, embeddings)
