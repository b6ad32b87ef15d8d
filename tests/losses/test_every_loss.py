"""What holds for every loss that `gsp_tf.losses` exports, and for those to come."""

import contextlib
import inspect
import json
from functools import partial

import keras
import numpy as np
import pytest
from gradients import BACKEND, EAGERLY, compiled, value_and_gradient, value_and_gradients
from keras import ops

from gsp_tf import losses
from gsp_tf.losses._inputs import largest_norm
from gsp_tf.losses._layer import LossLayer
from gsp_tf.training import MetricLearner

# What the exported losses need to be told; a loss that needs anything else fails the tests.
NEEDED = {
    "num_classes": lambda: 4,
    "embedding_dim": lambda: 3,
    "capacity": lambda: 40,
    "num_groups": lambda: 2,
    "dims": lambda: (2, 6),
    "loss": losses.ContrastiveLoss,
    "proxy_loss": lambda: losses.NormalizedSoftmaxLoss(4),
    "num_labelled": lambda: 4,
    "terms": lambda: [losses.ContrastiveLoss(), losses.NormalizedSoftmaxLoss(4)],
}
EXPORTED = [getattr(losses, name) for name in losses.__all__]
CLASSES = [
    x
    for x in EXPORTED
    if inspect.isclass(x)
    and issubclass(x, keras.losses.Loss)
    and x not in (losses.PairLoss, losses.ProxyLoss)
    and x is not losses.SemiSupervisedLoss  # takes two labels for each sample
]


def made(loss, /, **arguments):
    parameters = inspect.signature(loss).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD]
    needed = [name for name in needed if name not in arguments]
    return loss(**{name: NEEDED[name]() for name in needed} | arguments)


MAKERS = {loss.__name__: partial(made, loss) for loss in CLASSES} | {
    "MatryoshkaLoss of proxies": lambda: losses.MatryoshkaLoss(
        losses.NormalizedSoftmaxLoss(4), (2, 6)
    ),
    "GroupedLoss of proxies": lambda: losses.GroupedLoss(losses.NormalizedSoftmaxLoss(4), 2),
    "GroupedLoss of boundaries": lambda: losses.GroupedLoss(losses.ClassMarginLoss(4), 2),
    "HIERLoss": lambda: losses.HIERLoss(num_proxies=128),  # 512 take hundreds of megabytes
}
OF_LABELS = [name for name in MAKERS if name != "GroupDiversityLoss"]
WITHOUT_WEIGHTS = {
    "BarlowTwinsLoss", "GroupedLoss", "MatryoshkaLoss", "SelfSupervisedLoss", "SimilarityMixup",
    "VICRegLoss",
}  # fmt: skip
ARE_LAYERS = [name for name, make in MAKERS.items() if isinstance(make(), keras.layers.Layer)]
HAVE_WEIGHTS = [name for name in ARE_LAYERS if name not in WITHOUT_WEIGHTS]

MINERS = [
    x
    for x in EXPORTED
    if inspect.isclass(x)
    and issubclass(x, losses.Miner)
    and x not in (losses.Miner, losses.TripletMiner)
]

LABELS = np.arange(8) // 2
EMBEDDINGS = np.random.default_rng(0).normal(size=(8, 6)).astype("float32")


def plain_model(loss):
    features = keras.Input((6,))
    outputs = keras.layers.Dense(6)(features)
    if isinstance(loss, losses.GroupDiversityLoss):
        outputs = keras.layers.Reshape((2, 3))(outputs)
    return keras.Model(features, outputs)


def test_every_loss_is_found():
    exported = {x.__name__ for x in EXPORTED if inspect.isclass(x) and x.__name__.endswith("Loss")}
    assert exported - {"PairLoss", "ProxyLoss", "SemiSupervisedLoss"} <= MAKERS.keys()


@pytest.mark.parametrize("name", [*ARE_LAYERS, "ContrastiveLoss", "GroupDiversityLoss"])
def test_in_a_plain_model_weights_are_named_and_each_has_a_gradient(name):
    loss = MAKERS[name]()
    model = plain_model(loss)
    model.compile("sgd", loss=loss, run_eagerly=EAGERLY)
    message = None
    try:
        assert np.isfinite(model.train_on_batch(EMBEDDINGS, LABELS))
    except ValueError as error:
        message = str(error)
    embeddings = ops.convert_to_numpy(model(EMBEDDINGS))
    _, *found = value_and_gradients(loss, LABELS, embeddings)
    weights = getattr(loss, "weights", [])
    for weight, gradient in zip(getattr(loss, "trainable_weights", []), found[1:], strict=True):
        assert gradient.any(), weight.path
    if not weights:
        repeats = BACKEND == "jax" and getattr(loss, "variables", [])
        assert (message is not None) == bool(repeats), message
    else:
        assert type(loss).__name__ in message and "MetricLearner(model, loss)" in message
        assert all(weight.name in message for weight in weights)


@pytest.mark.parametrize(
    "make",
    [
        lambda: losses.TripletLoss(0.5, miner=losses.DistanceWeightedMiner(seed=0)),
        lambda: losses.TripletLoss(0.5, triplets_per_anchor=1, seed=0),
        lambda: losses.SimilarityMixup(losses.MultiSimilarityLoss(), seed=0),
    ],
)
def test_a_plain_model_draws_others_in_every_step_or_is_refused(make):
    def different(model):
        found = set()
        for _ in range(4):
            model.reset_metrics()
            found.add(float(model.train_on_batch(EMBEDDINGS, LABELS, return_dict=True)["loss"]))
        return len(found)

    model = plain_model(loss := make())
    model.compile(keras.optimizers.SGD(0.0), loss=loss, run_eagerly=EAGERLY)
    if BACKEND == "jax":
        with pytest.raises(ValueError, match=r"draws the same ones in every step.*MetricLearner"):
            different(model)
    else:
        assert different(model) > 1
    learner = MetricLearner(plain_model(loss), make())
    learner.compile(keras.optimizers.SGD(0.0), run_eagerly=EAGERLY)
    assert different(learner) > 1


OF_UNIT_VECTORS = (losses.FastAPLoss, losses.HistogramLoss, losses.TupletMarginLoss)


def other_value(parameter, made_by):
    """A value of a constructor's parameter that is not its default, where it takes others."""
    if parameter.name == "reduction" and made_by is losses.HistogramLoss:
        return None
    objects = {
        "miner": losses.DistanceWeightedMiner(0.3, 1.1, seed=7),
        "diversity": losses.GroupDiversityLoss(1.0, 0.3, 5.0),
        "proxy_loss": losses.NormalizedSoftmaxLoss(4, temperature=0.3, dtype="float64"),
        "loss": losses.ContrastiveLoss(
            0.1, 0.7, miner=losses.MultiSimilarityMiner(0.2), normalize=False
        ),
        "distance": losses.LpDistance(3.0, 2.0),
        "reduction": "sum_of_means"
        if parameter.default == "mean"
        else losses.Reduction("sum", (1.0, 0.5, 2.0, 0.0), (0.1, 0.9)),
        "embedding_regularizer": losses.LpRegularizer(0.3, p=1.0),
        "proxies_regularizer": losses.RegularFaceRegularizer(0.3),
        "positive_range": (0.1, 0.9),
        "negative_range": (0.2, 1.9),
        "triplets": "hard",
        "levels": (-1.0, 0.5),
        "recall_at": (2, 3),
        "variant": "Iu",
        "positive": "easy",
        "negative": "hard",
        "source": "samples",
        "super_classes": (0, 1, 0, 1),
        "terms": [losses.ContrastiveLoss(), losses.NormalizedSoftmaxLoss(4, dtype="float64")],
        "term_weights": (0.5, 2.0),
        "name": "another",
        "seed": 7,
        "weights": (0.5, 2.0),
    }
    if parameter.name in objects:
        return objects[parameter.name]
    if parameter.default is parameter.empty:
        return NEEDED[parameter.name]()
    if parameter.name == "normalize" and made_by in OF_UNIT_VECTORS:
        return True
    if isinstance(parameter.default, bool):
        return not parameter.default
    if isinstance(parameter.default, int):
        return parameter.default + 1
    if parameter.default is None:
        return 3
    return 0.8 * parameter.default or 0.1


@pytest.mark.parametrize("made_by", [*CLASSES, *MINERS])
def test_config_round_trip(made_by):
    # Label vectors exclude class weights and miners; test_relations saves losses of them.
    left_out = {"kwargs", "relation", "relation_threshold", "num_labels"}
    parameters = inspect.signature(made_by).parameters.values()
    arguments = {p.name: other_value(p, made_by) for p in parameters if p.name not in left_out}
    if issubclass(made_by, LossLayer):
        arguments |= {"name": "another", "dtype": "float64"}
    original = made_by(**arguments)
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(original)))
    twin = keras.saving.deserialize_keras_object(config)
    assert type(twin) is made_by and twin.get_config() == original.get_config()
    assert getattr(twin, "compute_dtype", "float64") == "float64"
    arguments.pop("dtype", None)
    for name, value in arguments.items():
        saved = twin.get_config()[name]
        if name == "terms":
            assert [x["class_name"] for x in saved] == ["ContrastiveLoss", "NormalizedSoftmaxLoss"]
            continue
        if hasattr(value, "get_config"):
            assert saved["class_name"] == type(value).__name__
            value, saved = value.get_config(), saved["config"]
        assert saved == value, name


BROKEN = {
    "one-hot": (np.eye(8), EMBEDDINGS, "one-hot label"),
    "halves": (LABELS + 0.5, EMBEDDINGS, "Labels must be whole numbers, received 0.5"),
    "too few": (LABELS[:4], EMBEDDINGS, r"received labels of shape \(4,\)"),
    "empty": (LABELS[:0], EMBEDDINGS[:0], "needs at least one sample"),
    "a map": (LABELS, EMBEDDINGS[:, None], r"embeddings of shape \(8, 1, 6\)"),
    "complex embeddings": (LABELS, EMBEDDINGS * 1j, "Embeddings must be .* received complex64"),
}


@pytest.mark.parametrize("name", OF_LABELS)
def test_refuses_what_it_cannot_use(name):
    loss = MAKERS[name]()
    for labels, embeddings, message in BROKEN.values():
        with pytest.raises(ValueError, match=message):
            loss(labels, embeddings)
    with pytest.raises(ValueError, match="takes no sample_weight"):
        loss(LABELS, EMBEDDINGS, np.ones(8))
    if getattr(loss, "num_classes", None) == 4:
        for label in (29, -1):
            with pytest.raises(ValueError, match=rf"0 to 3 \(num_classes=4\), received {label}\.$"):
                loss(LABELS * 0 + label, EMBEDDINGS)


# One of each base, which alone checks what it is given.
BASES = ["ContrastiveLoss", "ProxyAnchorLoss", "CrossBatchMemory", "GroupedLoss", "VirtualClass"]


def wrong_labels(loss):
    """Labels that only the values show to be wrong, and what the error says."""
    yield LABELS + 0.5, "Labels must be whole numbers, received.*0.5"
    yield np.where(LABELS > 2, np.nan, LABELS), "Labels must be whole numbers, received.*nan"
    if getattr(loss, "num_classes", None) == 4:
        yield LABELS + 26.0, r"0 to 3 \(num_classes=4\)"
        yield LABELS - 1.0, "0 to 3"


def assert_finite_and_shows_nan(run):
    labels = LABELS.astype("float32")
    assert np.isfinite(float(run(labels, EMBEDDINGS)))
    for broken in (np.nan, np.inf):
        embeddings = EMBEDDINGS.copy()
        embeddings[5, 1] = broken
        assert np.isnan(float(run(labels, embeddings)))


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", BASES)
def test_a_graph_refuses(name):
    import tensorflow as tf

    loss = MAKERS[name]()
    loss(LABELS, EMBEDDINGS)
    signature = [tf.TensorSpec((None,), "float32"), tf.TensorSpec((None, 6), "float32")]
    graph = tf.function(lambda *batch: loss(*batch), signature, autograph=False)
    for labels, message in (*wrong_labels(loss), (LABELS[:0], "needs at least one sample")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            graph(labels.astype("float32"), EMBEDDINGS[: len(labels)])
    assert_finite_and_shows_nan(graph)


@pytest.mark.parametrize("name", ["ContrastiveLoss", "ProxyAnchorLoss"])
def test_xla_gives_nan(name):
    loss = MAKERS[name]()
    loss(LABELS, EMBEDDINGS)
    run = compiled(lambda labels, embeddings: loss(labels, embeddings))
    for labels, message in wrong_labels(loss):
        # PyTorch runs it as it is, and can raise the error.
        refused = pytest.raises(ValueError, match=message)
        with refused if BACKEND == "torch" else contextlib.nullcontext():
            assert np.isnan(float(run(labels.astype("float32"), EMBEDDINGS)))
    assert_finite_and_shows_nan(run)


def test_fit_does_not_train_on_labels_outside_the_classes():
    learner = MetricLearner(plain_model(None), MAKERS["ProxyAnchorLoss"]())
    learner.compile("sgd", jit_compile=not EAGERLY)
    before = [weight.numpy() for weight in learner.trainable_weights]
    if BACKEND == "jax":  # A compiled step of JAX cannot raise an error.
        history = learner.fit(EMBEDDINGS, LABELS + 26, verbose=0).history
        assert np.isnan(history["loss"][0])
        return
    with pytest.raises(Exception, match=r"0 to 3 \(num_classes=4\)"):  # each backend has its own
        learner.fit(EMBEDDINGS, LABELS + 26, verbose=0)
    for weight, old in zip(learner.trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, old)


AROUND_LAYERS = [
    loss for loss in CLASSES if {"loss", "proxy_loss"} & inspect.signature(loss).parameters.keys()
]


@pytest.mark.parametrize("wrapper", AROUND_LAYERS)
def test_a_wrapper_has_the_type_of_its_loss(wrapper):
    name = ({"loss", "proxy_loss"} & inspect.signature(wrapper).parameters.keys()).pop()
    wide = EMBEDDINGS.astype("float64")
    takes_layers = name == "proxy_loss" or wrapper is losses.GroupedLoss
    inner = (
        partial(losses.NormalizedSoftmaxLoss, 4)
        if takes_layers
        else lambda dtype: losses.ContrastiveLoss()
    )
    for arguments in ({}, {"dtype": "float64"}):
        if not (takes_layers or arguments):
            continue
        loss = made(wrapper, **{name: inner(dtype="float64")}, **arguments)
        assert keras.backend.standardize_dtype(loss(LABELS, wide).dtype) == "float64"
    if takes_layers:
        message = f"{wrapper.__name__} must have the dtype of its Norm.*, float32, received float64"
        with pytest.raises(ValueError, match=message):
            made(wrapper, **{name: losses.NormalizedSoftmaxLoss(4), "dtype": "float64"})


LENGTHS_COUNT = ["AdaFaceLoss", "LargeMarginSoftmaxLoss", "SphereFaceLoss", "ZeroShotLoss"]
NOT_NORMALIZED = {
    loss.__name__: partial(made, loss, normalize=False)
    for loss in CLASSES
    if "normalize" in inspect.signature(loss).parameters and loss not in OF_UNIT_VECTORS
} | {
    **{name: MAKERS[name] for name in LENGTHS_COUNT},
    "steep CircleLoss": partial(losses.CircleLoss, 0.4, 256.0, normalize=False),
    "memory": lambda: losses.CrossBatchMemory(losses.ContrastiveLoss(normalize=False), 40),
    "levels": lambda: losses.MultiLevelDistanceRegularization(losses.ContrastiveLoss()),
    "proxy pairs": lambda: losses.ProxyPairsLoss(losses.ContrastiveLoss(normalize=False), 4),
    "groups": lambda: losses.GroupedLoss(losses.CircleLoss(normalize=False), 2),
}


@pytest.mark.parametrize("make", NOT_NORMALIZED.values(), ids=NOT_NORMALIZED)
def test_long_embeddings_give_finite_numbers_or_are_refused(make):
    unit = EMBEDDINGS / np.linalg.norm(EMBEDDINGS, axis=1, keepdims=True)
    # The regression of ZeroShotLoss loses its ridge beyond 100.
    longest = 1e2 if isinstance(make(), losses.ZeroShotLoss) else 0.99 * largest_norm("float32")
    for scale in (1e-40, 1e-20, longest):
        loss = make()
        value, gradient = value_and_gradient(loss, LABELS, (scale * unit).astype("float32"))
        assert (
            np.isfinite(float(value)) and np.isfinite(keras.ops.convert_to_numpy(gradient)).all()
        ), scale
    # The groups of an embedding are shorter.
    for factor in (1e10,) if isinstance(loss, losses.GroupedLoss) else (2, 1e10):
        too_long = (factor * largest_norm("float32") * unit).astype("float32")
        with pytest.raises(ValueError, match="not normalise float32 embeddings takes norms up"):
            loss(LABELS, too_long)


@pytest.mark.parametrize("name", HAVE_WEIGHTS)
def test_losses_with_weights_give_float32_whatever_floatx_is(name):
    keras.config.set_dtype_policy("float64")
    keras.config.set_floatx("float64")
    try:
        value = MAKERS[name]()(LABELS, EMBEDDINGS.astype("float64"))
    finally:
        keras.config.set_floatx("float32")
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    assert np.isfinite(float(value))
