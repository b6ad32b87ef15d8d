"""Numbers of losses that change while training, against losses that were made with them."""

import itertools

import keras
import numpy as np
import pytest
from gradients import BACKEND, EAGERLY, compiled
from loss_examples import LAYERS, MINERS, PAIR_LOSSES

from gsp_tf import losses, training
from gsp_tf._config import numbers_of

RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=(16, 8)).astype("float32"), np.arange(16) % 4

REGULARIZERS = (
    losses.CenterInvariantRegularizer,
    losses.RegularFaceRegularizer,
    lambda: losses.LpRegularizer(0.5, 2.0, 1.5),
    losses.ZeroMeanRegularizer,
    lambda: losses.SparseCentersRegularizer(0.5, 2),
)
OTHERS = {
    "barlow_twins": losses.BarlowTwinsLoss,
    "diversity": lambda: losses.GroupDiversityLoss(alpha=1.0, weight=2.0),
    "grouped": lambda: losses.GroupedLoss(losses.ContrastiveLoss(), 2, diversity_weight=0.5),
    "HIER": lambda: losses.HIERLoss(6, seed=0),
    "proxy_pairs": lambda: losses.ProxyPairsLoss(losses.ContrastiveLoss(), 4, 2, 0.3),
    "sub_center": lambda: losses.SubCenterArcFaceLoss(4, 2),
    "sum": lambda: losses.WeightedSumLoss([losses.TripletLoss(), losses.NCALoss()], [0.3, 0.6]),
    "matryoshka": lambda: losses.MatryoshkaLoss(losses.ContrastiveLoss(), [2, 8]),
    "thresholds": lambda: losses.ContrastiveLoss(
        reduction=losses.Reduction("nonzero_mean", thresholds=(0.01, 1.4))
    ),
    "VICReg": losses.VICRegLoss,
    "zero_shot": lambda: losses.ZeroShotLoss(4, 3),
}
EVERY_LOSS = {
    **{f"loss {name}": make for name, make in (LAYERS | PAIR_LOSSES | OTHERS).items()},
    **{
        f"miner {name}": lambda miner=miner, regularizer=regularizer: losses.ContrastiveLoss(
            0.0, 2.0, miner=miner(), embedding_regularizer=regularizer()
        )
        for (name, miner), regularizer in zip(MINERS.items(), itertools.cycle(REGULARIZERS))
    },
}


def with_numbers(config, numbers):
    """A config in which the numbers at these paths are others."""
    for path, number in numbers.items():
        *parents, last = path.split(".")
        node = config
        for name in parents:
            if isinstance(node, dict) and isinstance(node[name], tuple):
                node[name] = [*node[name]]
            node = node[int(name)] if isinstance(node, list) else node[name]
            node = node["config"] if isinstance(node, dict) and "config" in node else node
        node[int(last) if isinstance(node, list) else last] = number
    return config


@pytest.mark.parametrize("name", EVERY_LOSS)
def test_a_traced_loss_computes_with_each_new_number_of_every_loss(name):
    """After the trace, each number changes to another; the value is that of a loss made with it."""
    loss = EVERY_LOSS[name]()
    x = X.reshape(-1, 4, 2) if name == "loss diversity" else X
    labels = np.arange(16) // 2 if name in ("loss barlow_twins", "loss VICReg") else LABELS
    is_layer = isinstance(loss, keras.layers.Layer)
    if is_layer:
        loss.build((None,), (None, 8))
    numbers = numbers_of(loss)
    before = {path: number.get() for path, number in numbers.items()}
    after = {path: 0.9 * value + (0.004 if value == 0 else 0.0) for path, value in before.items()}
    for path, number in numbers.items():
        number.check(after[path])
    made = type(loss).from_config(with_numbers(loss.get_config(), after))
    if is_layer:
        made.build((None,), (None, 8))
        made.set_weights(loss.get_weights())

    variables = {path: keras.Variable(value, dtype="float32") for path, value in before.items()}
    for path, number in numbers.items():
        number.put(variables[path])
    states = [*variables.values(), *(loss.variables if is_layer else ())]
    seeds = [y for y in (getattr(x, "seed_generator", None) for x in (loss, made)) if y]
    states += [seed.state for seed in seeds[:1] if all(seed.state is not s for s in states)]
    starts = [(v, keras.ops.convert_to_numpy(v)) for v in states[len(variables) :]]
    traced = compiled(lambda x: loss(labels, x), jit_compile=False, states=tuple(states))
    traced(keras.ops.convert_to_tensor(x))
    for variable, value in starts:
        variable.assign(value)
    for path, variable in variables.items():
        variable.assign(after[path])
    found = float(traced(keras.ops.convert_to_tensor(x)))
    expected = made(labels, keras.ops.convert_to_tensor(x))
    np.testing.assert_allclose(found, float(expected), rtol=1e-5)


def learner_of(loss, rate=0.0, kind=training.MetricLearner, **arguments):
    keras.utils.set_random_seed(0)
    embedder = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    learner = kind(embedder, loss)
    learner.compile(keras.optimizers.SGD(rate), **arguments)
    return learner


def fit(model, schedules=None, epochs=1, callbacks=(), **arguments):
    if schedules is not None:
        callbacks = [training.Schedule(schedules), *callbacks]
    arguments = {"batch_size": 8, "shuffle": False, "verbose": 0, **arguments}
    return model.fit(X, LABELS, epochs=epochs, callbacks=[*callbacks], **arguments).history["loss"]


EAGER = {"run_eagerly": EAGERLY, "jit_compile": False}
COMPILED = {"jit_compile": True, "steps_per_execution": 2} if BACKEND != "torch" else EAGER


def test_the_losses_of_each_epoch_are_those_of_learners_made_with_its_numbers():
    margins, weights = [0.2, 0.5, 0.9], [0.0, 1.0, 2.5]
    schedules = {
        "loss.negative_margin": lambda epoch: margins[epoch],
        "loss_weights.embedding": lambda epoch: weights[epoch],
    }
    learner = learner_of(losses.ContrastiveLoss(), **COMPILED)
    found = fit(learner, schedules, epochs=3)
    expected = [
        weight * fit(learner_of(losses.ContrastiveLoss(negative_margin=margin), **EAGER))[0]
        for margin, weight in zip(margins, weights, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert learner.embedding_loss.negative_margin == pytest.approx(0.9)
    assert dict(learner.loss_weights)["embedding"] == 2.5
    assert fit(learner)[0] == pytest.approx(expected[2])  # the numbers stay
    assert len(learner.variables) == 2


@pytest.mark.parametrize("wrap", [lambda inner: inner, keras.optimizers.LossScaleOptimizer])
def test_a_plain_model_has_the_number_of_the_step_of_an_optimizer_that_accumulates(wrap):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    optimizer = wrap(keras.optimizers.SGD(0.0, gradient_accumulation_steps=2))
    model.compile(optimizer, losses.NCALoss(), jit_compile=False)
    seen = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: seen.append(float(model.loss.scale.numpy()))
    )
    steps = keras.optimizers.schedules.PolynomialDecay(1.0, 10, 11.0)
    fit(model, {"loss.scale": steps}, epochs=3, callbacks=[watch], batch_size=6)
    assert seen == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0]  # three batches an epoch


def test_a_run_that_was_saved_and_continued_is_one_that_was_not(tmp_path):
    schedules = {
        "loss.batch_weight": lambda epoch: 0.5 * epoch,
        "loss.loss.negative_margin": keras.optimizers.schedules.PolynomialDecay(0.4, 8, 1.2),
    }

    def learner():
        return learner_of(losses.CrossBatchMemory(losses.ContrastiveLoss(), 32), 0.1, **EAGER)

    whole = learner()
    expected = fit(whole, schedules, epochs=4)
    path = tmp_path / "state.npz"
    first = learner()
    begun = fit(first, schedules, epochs=3, callbacks=[training.Checkpoint(path)])
    first.save(tmp_path / "learner.keras")
    loaded = keras.models.load_model(tmp_path / "learner.keras")
    loaded.run_eagerly = EAGERLY
    assert loaded.embedding_loss.batch_weight == 1.0
    rest = fit(loaded, schedules, epochs=4, initial_epoch=3)
    np.testing.assert_allclose([*begun, *rest], expected, rtol=1e-5)
    resumed = [training.Checkpoint(path, resume=True)]
    rest = fit(learner(), schedules, epochs=4, callbacks=resumed, initial_epoch=2)
    np.testing.assert_allclose(rest, expected[2:], rtol=1e-5)


def test_the_weight_of_a_projection_is_scheduled():
    learner = learner_of(losses.ContrastiveLoss(), kind=training.ProjectionLearner, **EAGER)
    learner.project_from_here(0.1)
    fit(learner, {"projection_weight": lambda epoch: 0.25})
    assert float(learner.projection_weight) == 0.25


def test_what_a_traced_step_has_read_refuses_to_change():
    miner = losses.MultiSimilarityMiner()
    memory = losses.CrossBatchMemory(losses.ContrastiveLoss(miner=miner), 32)
    memory.batch_weight = 0.5
    fit(learner_of(memory, jit_compile=False))
    plain = losses.ContrastiveLoss(embedding_regularizer=losses.LpRegularizer())
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    model.compile("sgd", plain, jit_compile=False)
    fit(model)
    for part, name, value in (
        (memory, "batch_weight", 0.3),
        (memory.loss, "negative_margin", 0.3),
        (miner, "epsilon", 0.3),
        (plain, "negative_margin", 0.3),
        (plain, "normalize", False),
        (plain.embedding_regularizer, "weight", 0.3),
    ):
        if BACKEND == "torch":  # no step was traced, and the next one has the number
            setattr(part, name, value)
        else:
            with pytest.raises(ValueError, match=f"{name} of .* cannot change.*training.Schedule"):
                setattr(part, name, value)


def test_a_learner_and_copies_of_arguments_refuse_to_change():
    learner = learner_of(losses.ContrastiveLoss())
    for change in (
        lambda: learner.loss_weights.update(embedding=0.5),
        lambda: learner.loss_weights.pop("embedding"),
        lambda: setattr(learner, "loss_weights", {}),
        lambda: setattr(learner, "attribute_weight", 0.5),
        lambda: setattr(learner, "chunk_size", 2),
        lambda: setattr(losses.HybridLoss(4), "alpha", 3.0),
    ):
        with pytest.raises(ValueError, match=r"gsp_tf\.training\.Schedule"):
            change()


@pytest.mark.parametrize(
    ("schedules", "message"),
    [
        ({"loss.margin": float}, r"no number loss\.margin to schedule; .* loss\.scale"),
        ({"loss.scale": 3.0}, "must be a function of the epoch or one of"),
        ({"loss.scale": lambda epoch: float("nan")}, "gives nan, which is not finite"),
        ({"loss.scale": lambda epoch: 0.0 * -1}, "scale must be positive and finite, received"),
        ({"loss_weights.embedding": lambda epoch: -1.0}, "must not be negative, received -1.0"),
    ],
)
def test_schedules_of_nothing_and_bad_values_are_refused(schedules, message):
    with pytest.raises(ValueError, match=message):
        fit(learner_of(losses.NCALoss(), run_eagerly=True), schedules)


@pytest.mark.parametrize("precision", ["mixed_float16", "float64"])
@pytest.mark.parametrize("memory", [True, False])
def test_numbers_have_the_type_of_their_loss(precision, memory):
    """A loss layer compares in float32 by default, a pair loss in the type of the embeddings."""
    keras.config.set_dtype_policy(precision)
    loss = losses.MultiSimilarityLoss(miner=losses.MultiSimilarityMiner())
    path = "loss.loss" if memory else "loss"
    learner = learner_of(losses.CrossBatchMemory(loss, 32) if memory else loss, **EAGER)
    schedules = {f"{path}.{x}": lambda epoch: 0.3 for x in ("beta", "base", "miner.epsilon")}
    (found,) = fit(learner, schedules | {"loss_weights.embedding": lambda epoch: 2.0})
    loss = losses.MultiSimilarityLoss(beta=0.3, base=0.3, miner=losses.MultiSimilarityMiner(0.3))
    (expected,) = fit(learner_of(losses.CrossBatchMemory(loss, 32) if memory else loss, **EAGER))
    assert found == pytest.approx(2 * expected, rel=1e-5)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=str)
def test_callbacks_that_keep_batches_may_come_before_or_after(order):
    schedule = training.Schedule({"loss.scale": lambda epoch: 1.0 + epoch})
    callbacks = training.HealthCheck(every=1), schedule, training.StopOnNaN()
    learner = learner_of(losses.NCALoss(), rate=0.1, **EAGER)
    fit(learner, epochs=2, callbacks=[callbacks[i] for i in order])
    assert learner.embedding_loss.scale == 2.0
    assert np.isfinite(callbacks[0].measures["loss"])
    assert not hasattr(learner.train_function, "batch")
