import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses import (
    ContrastiveLoss,
    MultiSimilarityLoss,
    ProxyNCALoss,
    Reduction,
    ZeroShotLoss,
)
from gsp_tf.training import MetricLearner, embed

CLASSES = 4


def samples(count=24, seed=0):
    """Vectors around the four corners of a square, and their classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    corners = 2.0 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    x = np.concatenate([corners[labels], np.zeros((count, 4))], 1) + rng.normal(size=(count, 6))
    return x.astype("float32"), labels


def dataset(batch_size=12, **arguments):
    return tf.data.Dataset.from_tensor_slices(samples(**arguments)).batch(batch_size)


def vector_embedder(with_attributes=False):
    inputs = keras.Input((6,))
    embeddings = keras.layers.Dense(5)(inputs)
    if not with_attributes:
        return keras.Model(inputs, embeddings)
    attributes = keras.layers.Dense(4, activation="softmax")(inputs)
    return keras.Model(inputs, [embeddings, attributes])


@keras.saving.register_keras_serializable("gsp_tf_tests")
class SubclassedEmbedder(keras.Model):
    """Not functional: its shapes are unknown before it is called."""

    def __init__(self, with_attributes=False, **kwargs):
        super().__init__(**kwargs)
        self.with_attributes = with_attributes
        self.hidden = keras.layers.Dense(5)
        self.dropout = keras.layers.Dropout(0.5)
        self.attributes = keras.layers.Dense(4, activation="softmax")

    def call(self, x, training=None):
        embeddings = self.dropout(self.hidden(x), training=training)
        return (embeddings, self.attributes(x)) if self.with_attributes else embeddings

    def get_config(self):
        return {**super().get_config(), "with_attributes": self.with_attributes}


def learner_with_every_loss(embedder=None):
    embedder = vector_embedder(with_attributes=True) if embedder is None else embedder
    return MetricLearner(embedder, ProxyNCALoss(CLASSES), ZeroShotLoss(CLASSES, 3), 0.25)


@pytest.mark.equation("GSP", "λ, section 4.3", "training.MetricLearner")
def test_total_is_the_weighted_sum_and_the_regularisers():
    inputs = keras.Input((6,))
    embeddings = keras.layers.Dense(
        5, kernel_regularizer=keras.regularizers.L2(0.1), activity_regularizer="l1"
    )(inputs)
    attributes = keras.layers.Dense(4, activation="softmax", bias_regularizer="l1")(inputs)
    embedder = keras.Model(inputs, [embeddings, attributes])
    learner = learner_with_every_loss(embedder)
    for weight in learner.weights:
        weight.assign_add(0.1 * np.ones(weight.shape))
    x, labels = samples(12)
    e, z = (np.asarray(output) for output in learner(x))
    embedding_loss = float(learner.embedding_loss(labels, e))
    attribute_loss = float(learner.attribute_loss(labels, z))
    kernel, bias = embedder.layers[1].kernel, embedder.layers[2].bias
    regularisers = 0.1 * np.sum(np.square(kernel)) + 0.01 * np.sum(np.abs(bias))
    assert float(sum(learner.losses)) > regularisers + 1e-3
    regularisers = float(sum(learner.losses))
    expected = 0.75 * embedding_loss + 0.25 * attribute_loss
    learner.compile("sgd", run_eagerly=True)
    logs = learner.evaluate(x, labels, batch_size=12, return_dict=True, verbose=0)
    assert logs["loss"] == pytest.approx(expected + regularisers, rel=1e-5)
    assert logs["embedding_loss"] == pytest.approx(embedding_loss, rel=1e-5)
    assert logs["attribute_loss"] == pytest.approx(attribute_loss, rel=1e-5)
    first = learner.fit(x, labels, batch_size=12, verbose=0).history
    assert first["loss"][0] == pytest.approx(logs["loss"], rel=1e-5)


@pytest.mark.equation("thesis", "5.2.5", "training.MetricLearner")
def test_a_step_descends_the_gradient_of_the_total():
    learner = learner_with_every_loss()
    assert learner.built
    assert [w.name for w in learner.trainable_weights] == (
        [w.name for w in learner.embedder.trainable_weights] + ["proxies", "class_embeddings"]
    )
    x, labels = samples(12)
    with tf.GradientTape() as tape:
        embeddings, attributes = learner(x, training=True)
        total = 0.75 * learner.embedding_loss(labels, embeddings)
        total += 0.25 * learner.attribute_loss(labels, attributes)
    gradients = tape.gradient(total, [w.value for w in learner.trainable_weights])
    expected = [w - 0.01 * g for w, g in zip(learner.trainable_weights, gradients, strict=True)]
    learner.compile(keras.optimizers.SGD(0.01), run_eagerly=True)
    learner.fit(x, labels, batch_size=12, verbose=0)
    for weight, value in zip(learner.trainable_weights, expected, strict=True):
        np.testing.assert_allclose(weight, value, rtol=1e-4, atol=1e-6, err_msg=weight.path)


def test_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    learner = learner_with_every_loss()
    assert {w.dtype for w in learner.trainable_weights} == {"float32"}
    x, labels = samples(8)
    assert [output.dtype.name for output in learner(x)] == ["float16", "float16"]
    before = [w.numpy() for w in learner.trainable_weights]
    learner.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    assert isinstance(learner.optimizer, keras.optimizers.LossScaleOptimizer)
    # Loss scaling may skip the first steps, until its scale fits.
    history = learner.fit(x, labels, batch_size=8, epochs=8, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert history["loss"][-1] < history["loss"][0]
    for weight, old in zip(learner.trainable_weights, before, strict=True):
        assert np.isfinite(weight).all() and not np.array_equal(weight, old), weight.path


def test_subclassed_embedder(tmp_path):
    learner = learner_with_every_loss(embedder=SubclassedEmbedder(with_attributes=True))
    assert not learner.built
    learner.compile(keras.optimizers.Adam(0.02), run_eagerly=True)
    history = learner.fit(dataset(), epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]
    assert learner.embedding_loss.proxies.shape == (CLASSES, 5)
    assert any(w is learner.embedding_loss.proxies for w in learner.trainable_weights)
    learner.save(tmp_path / "learner.keras")
    loaded = keras.models.load_model(tmp_path / "learner.keras")
    np.testing.assert_array_equal(loaded.embedding_loss.proxies, learner.embedding_loss.proxies)
    for value, original in zip(*(embed(m, dataset()) for m in (loaded, learner)), strict=True):
        np.testing.assert_array_equal(value, original)
    assert loaded.fit(dataset(), verbose=0).history["loss"][0] < history[0]


def test_a_function_may_be_the_loss_and_gets_the_labels_as_they_are():
    x, _ = samples(8)
    labels = 2**24 + np.arange(8) // 2
    contrastive = ContrastiveLoss(0.0, 1.5)
    for loss in (contrastive, lambda labels, embeddings: contrastive(labels, embeddings)):
        learner = MetricLearner(vector_embedder(), loss)
        learner.compile("sgd", run_eagerly=True)
        expected = float(contrastive(labels - 2**24, learner(x)))
        for given in (labels, labels[:, None]):
            value = learner.evaluate(x, given, verbose=0, return_dict=True)["loss"]
            assert value == pytest.approx(expected, rel=1e-5)


def test_refuses_attribute_loss_without_attributes():
    message = r"losses of embedding, attribute for 1 outputs \(embedding\).*return_attributes=True"
    with pytest.raises(ValueError, match=message):
        learner_with_every_loss(embedder=vector_embedder())
    learner = learner_with_every_loss(embedder=SubclassedEmbedder())
    learner.compile("adam", run_eagerly=True)
    with pytest.raises(ValueError, match=message):
        learner.fit(dataset(), verbose=0)


def test_refuses_another_loss_weights_of_samples_and_images_without_labels():
    learner = MetricLearner(vector_embedder(), ContrastiveLoss())
    with pytest.raises(ValueError, match="made with its loss; compile takes none, received 'mse'"):
        learner.compile(optimizer="adam", loss="mse")
    with pytest.raises(ValueError, match=r"compile takes none, .* MetricLearner\(.*, loss_weights"):
        learner.compile("adam", loss_weights=0)
    for name in ("metrics", "weighted_metrics"):
        with pytest.raises(ValueError, match=f"takes no {name}, .* RetrievalEvaluation"):
            learner.compile("adam", **{name: ["accuracy"]})
    learner.compile("adam", metrics=[], loss_weights=None, run_eagerly=True)
    for weights in ({"sample_weight": np.ones(24)}, {"class_weight": dict.fromkeys(range(4), 2)}):
        with pytest.raises(ValueError, match="MetricLearner takes no sample_weight, which fit m"):
            learner.fit(*samples(), verbose=0, **weights)
    with pytest.raises(ValueError, match="MetricLearner needs labels"):
        learner.fit(samples()[0], verbose=0)


def three_outputs(as_dict):
    """An embedder with three outputs, of 5, 4 and 3 numbers, and a regulariser."""
    inputs = keras.Input((6,))
    outputs = {
        "wide": keras.layers.Dense(5, kernel_regularizer=keras.regularizers.L2(0.1))(inputs),
        "middle": keras.layers.Dense(4)(inputs),
        "narrow": keras.layers.Dense(3)(inputs),
    }
    return keras.Model(inputs, outputs if as_dict else list(outputs.values()))


NAMED = {"wide": 5, "middle": 4, "narrow": 3}


def named_losses():
    return {
        "wide": ContrastiveLoss(0.0, 1.0),
        "middle": ProxyNCALoss(CLASSES),
        "narrow": ProxyNCALoss(CLASSES),
    }


@pytest.mark.parametrize("as_dict", [False, True])
def test_named_losses_are_weighted_by_output(as_dict):
    weights = {"middle": 0.25, "narrow": 0.0, "regularizers": 3.0}
    learner = MetricLearner(three_outputs(as_dict), named_losses(), loss_weights=weights)
    assert learner.loss_weights == {"wide": 1.0, **weights}
    assert learner.embedding_loss is learner.named_losses["wide"]
    assert learner.named_losses["narrow"].proxies.shape == (CLASSES, 3)
    x, labels = samples(12)
    outputs = learner(x)
    outputs = outputs if as_dict else dict(zip(NAMED, outputs, strict=True))
    assert {name: output.shape[1] for name, output in outputs.items()} == NAMED
    values = {
        name: float(loss(labels, outputs[name])) for name, loss in learner.named_losses.items()
    }
    learner.compile("sgd", run_eagerly=True)
    logs = learner.evaluate(x, labels, batch_size=12, return_dict=True, verbose=0)
    for name, value in values.items():
        assert logs[f"{name}_loss"] == pytest.approx(value, rel=1e-5)
    kernel = next(w for w in learner.trainable_weights if w.shape == (6, 5))
    regulariser = 0.1 * np.sum(np.square(kernel))
    expected = values["wide"] + 0.25 * values["middle"] + 3 * regulariser
    assert logs["loss"] == pytest.approx(expected, rel=1e-5)


def test_loaded_learner_is_compiled_as_it_was(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    learner = MetricLearner(
        three_outputs(True), named_losses(), loss_weights={"middle": 0.25}, name="the_learner"
    )
    arguments = {"jit_compile": False, "run_eagerly": True, "steps_per_execution": 2}
    learner.compile(keras.optimizers.SGD(0.05, momentum=0.9), **arguments)
    learner.fit(dataset(), epochs=2, verbose=0)
    learner.save(tmp_path / "learner.keras")
    loaded = keras.models.load_model(tmp_path / "learner.keras")
    assert loaded.name == "the_learner"
    assert loaded.loss_weights == learner.loss_weights
    assert list(loaded.named_losses) == list(NAMED)
    for name, loss in learner.named_losses.items():
        assert loaded.named_losses[name].get_config() == loss.get_config()
    assert loaded.compiled and {name: getattr(loaded, name) for name in arguments} == arguments
    assert type(loaded.optimizer) is type(learner.optimizer)
    for value, original in zip(loaded.weights, learner.weights, strict=True):
        assert (value.name, value.dtype) == (original.name, original.dtype)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": {"wide": ContrastiveLoss()}}, "losses of wide for 3 outputs"),
        ({"loss": {**named_losses(), "other": ContrastiveLoss()}}, "narrow, other for 3 outputs"),
        ({"loss": "triplet"}, "'embedding' must be a loss such as .*received 'triplet'"),
        ({"loss": None}, "first output, the embeddings, needs a loss"),
        *(
            ({"loss": ContrastiveLoss(reduction=x)}, "must give one number, received reduction=")
            for x in ("none", Reduction("none"))
        ),
        ({"loss": {"regularizers": ContrastiveLoss()}}, "reserved name regularizers, received 're"),
        ({"loss_weights": {"wid": 1.0}}, "of wide, middle, narrow, regularizers, .* 'wid'"),
        ({"loss_weights": {"wide": -1.0}}, "must be finite and not negative, received wide=-1.0"),
        ({"attribute_loss": ContrastiveLoss()}, "attribute_loss is for a single loss"),
    ],
)
def test_refuses_losses_that_do_not_fit(arguments, message):
    for as_dict in (False, True):
        with pytest.raises(ValueError, match=message):
            MetricLearner(three_outputs(as_dict), **{"loss": named_losses(), **arguments})


def test_losses_in_any_order_belong_to_the_outputs_of_their_names():
    images = keras.Input((4,))
    outputs = {name: keras.layers.Dense(dim)(images) for name, dim in (("emb", 3), ("aux", 2))}
    of_embeddings, other = ContrastiveLoss(), MultiSimilarityLoss()
    embedder = keras.Model(images, outputs)
    learner = MetricLearner(embedder, {"aux": other, "emb": of_embeddings})
    assert learner.embedding_loss is of_embeddings
    assert learner.named_losses == {"emb": of_embeddings, "aux": other}
    assert MetricLearner(embedder, {"aux": None, "emb": other}).embedding_loss is other
