import subprocess
import sys

import keras
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from gsp_tf.losses import ContrastiveLoss, HardNegativeMiner
from gsp_tf.training import MetricLearner


def embedder(columns, units=4):
    return keras.Sequential([keras.Input((columns,)), keras.layers.Dense(units)])


@pytest.mark.parametrize(
    ("make_loss", "trained", "others"),
    [
        ("proxy_anchor", {"proxies": (4, 6)}, {}),
        ("soft_triple", {"proxies": (12, 6)}, {}),
        ("class_margin", {"betas": (4,)}, {}),
        ("hybrid", {"proxies": (4, 6)}, {}),
        ("proxy_synthesis", {"proxies": (4, 6)}, {}),
        ("virtual_class", {"proxies": (4, 6)}, {}),
        (
            "memory",
            {},
            {"memory": (40, 6), "memory_labels": (40,), "num_enqueued": (), "num_steps": ()},
        ),
        ("levels", {"levels": (3,)}, {"mean": (), "deviation": (), "num_updates": ()}),
    ],
    indirect=["make_loss"],
)
def test_weights_of_the_loss_are_weights_of_the_learner(make_loss, trained, others):
    loss = make_loss()
    learner = MetricLearner(embedder(5, units=6), loss)
    assert loss.compute_output_shape((None,), (None, 6)) == ()
    assert {w.name: tuple(w.shape) for w in loss.trainable_weights} == trained
    assert {w.name: tuple(w.shape) for w in loss.non_trainable_weights} == others
    dense = [5 * 6, 6]
    for weights, own in (
        (learner.trainable_weights, [*dense, *map(np.prod, trained.values())]),
        (learner.non_trainable_weights, [np.prod(shape) for shape in others.values()]),
    ):
        assert [np.prod(w.shape) for w in weights] == own
    lines = []
    learner.summary(line_length=120, print_fn=lines.append)
    text = "\n".join(lines)
    num_params = sum(dense) + sum(int(np.prod(s)) for s in [*trained.values(), *others.values()])
    assert type(loss).__name__ in text and f"Total params: {num_params} " in text


def nearest_neighbour_accuracy(embeddings, labels):
    distances = cdist(embeddings, embeddings, "cosine") + 1e9 * np.eye(len(labels))
    return np.mean(labels[distances.argmin(1)] == labels)


TRAINED = ["proxy_anchor", "class_margin", "hybrid", "proxy_synthesis", "memory", "levels"]


@pytest.mark.parametrize("make_loss", TRAINED, indirect=True)
def test_fit_separates_the_classes(make_loss):
    # Four points in three columns, drowned in the noise of the other twelve.
    rng = np.random.default_rng(0)
    labels = np.arange(1024) % 4
    informative = 2 * rng.normal(size=(4, 3))[labels] + 0.1 * rng.normal(size=(1024, 3))
    features = np.concatenate([informative, 4 * rng.normal(size=(1024, 12))], 1).astype("float32")
    train, test = slice(0, 512), slice(512, None)
    assert nearest_neighbour_accuracy(features[test], labels[test]) < 0.5
    learner = MetricLearner(embedder(15, units=16), make_loss())
    before = [w.numpy() for w in learner.trainable_weights]
    learner.compile(keras.optimizers.Adam(0.1))
    history = learner.fit(features[train], labels[train], batch_size=32, epochs=10, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    accuracy = nearest_neighbour_accuracy(learner.predict(features[test], verbose=0), labels[test])
    assert accuracy > 0.9
    for weight, old in zip(learner.trainable_weights, before, strict=True):
        assert not np.array_equal(weight, old), weight.path


LOAD_AND_CONTINUE = """
import sys
import keras
import numpy as np
import gsp_tf.training
data = np.load("data.npz")
for name in sys.argv[1:]:
    learner = keras.models.load_model(f"{name}.keras")
    learner.run_eagerly = True
    weights = [np.asarray(w) for w in (*learner.weights, *learner.optimizer.variables)]
    value = learner.evaluate(data["x"], data["y"], verbose=0)
    loss = learner.fit(data["x"], data["y"], epochs=2, shuffle=False, verbose=0).history["loss"]
    np.savez(f"{name}.npz", *weights, value, loss)
"""


def test_saved_losses_continue_in_a_fresh_process(makers, tmp_path):
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(8, 5)).astype("float32"), np.arange(8) % 4
    np.savez(tmp_path / "data.npz", x=x, y=labels)
    plain = embedder(5)
    plain.compile("adam", ContrastiveLoss(0.1, 1.5, miner=HardNegativeMiner()), run_eagerly=True)
    learners = {"plain": plain}
    plain.fit(x, labels, epochs=2, shuffle=False, verbose=0)
    plain.save(tmp_path / "plain.keras")
    for name in TRAINED:
        learners[name] = learner = MetricLearner(embedder(5), makers[name]())
        learner.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
        learner.fit(x, labels, epochs=2, shuffle=False, verbose=0)
        learner.save(tmp_path / f"{name}.keras")
    command = [sys.executable, "-c", LOAD_AND_CONTINUE, *learners]
    subprocess.run(command, check=True, cwd=tmp_path)
    for name, learner in learners.items():
        *state, value, loss = np.load(tmp_path / f"{name}.npz").values()
        for saved, weight in zip(
            state, (*learner.weights, *learner.optimizer.variables), strict=True
        ):
            np.testing.assert_array_equal(saved, weight, err_msg=f"{name}: {weight.path}")
        np.testing.assert_allclose(value, learner.evaluate(x, labels, verbose=0), rtol=1e-6)
        if name == "proxy_synthesis":
            # Keras does not save how far a sequence of random numbers has come.
            continue
        continued = learner.fit(x, labels, epochs=2, shuffle=False, verbose=0).history["loss"]
        np.testing.assert_allclose(loss, continued, rtol=1e-5, err_msg=name)
