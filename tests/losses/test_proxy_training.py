import keras
import numpy as np
import pytest
from gradients import EAGERLY
from loss_examples import LAYERS
from processes import run

from gsp_tf.losses import ContrastiveLoss, HardNegativeMiner
from gsp_tf.training import MetricLearner


def embedder(columns, units=4):
    return keras.Sequential([keras.Input((columns,)), keras.layers.Dense(units)])


@pytest.mark.parametrize(
    ("name", "trained", "others"),
    [
        ("proxy_anchor", {"proxies": (4, 6)}, {}),
        ("soft_triple", {"proxies": (12, 6)}, {}),
        ("class_margin", {"betas": (4,)}, {}),
        ("hybrid", {"proxies": (4, 6)}, {}),
        ("proxy_synthesis", {"proxies": (4, 6)}, {}),
        ("partial_fc", {"proxies": (4, 6)}, {}),
        ("virtual_class", {"proxies": (4, 6)}, {}),
        (
            "memory",
            {},
            {"memory": (40, 6), "memory_labels": (40,), "num_enqueued": (), "num_steps": ()},
        ),
        ("levels", {"levels": (3,)}, {"mean": (), "deviation": (), "num_updates": ()}),
    ],
)
def test_weights_of_the_loss_are_weights_of_the_learner(name, trained, others):
    loss = LAYERS[name]()
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


LOAD_AND_CONTINUE = """
import sys
import keras
import numpy as np
import gsp_tf.training
data = np.load("data.npz")
for name in sys.argv[1:]:
    learner = keras.models.load_model(f"{name}.keras")
    learner.run_eagerly = keras.backend.backend() != "jax"
    weights = [np.asarray(w) for w in (*learner.weights, *learner.optimizer.variables)]
    value = learner.test_on_batch(data["x"], data["y"])
    losses = [learner.train_on_batch(data["x"], data["y"]) for _ in range(2)]
    np.savez(f"{name}.npz", *weights, value, losses)
"""


def test_saved_losses_continue_in_a_fresh_process(tmp_path):
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(8, 5)).astype("float32"), np.arange(8) % 4
    np.savez(tmp_path / "data.npz", x=x, y=labels)
    plain = embedder(5)
    plain.compile("adam", ContrastiveLoss(0.1, 1.5, miner=HardNegativeMiner()), run_eagerly=EAGERLY)
    learners = {"plain": plain}
    # A loss within a loss, a random one, and those that keep a state.
    for name in ("hybrid", "partial_fc", "proxy_synthesis", "memory", "levels"):
        learners[name] = MetricLearner(embedder(5), LAYERS[name]())
        learners[name].compile(keras.optimizers.Adam(0.01), run_eagerly=EAGERLY)
    for name, learner in learners.items():
        for _ in range(2):
            learner.train_on_batch(x, labels)
        learner.save(tmp_path / f"{name}.keras")
    ended = run(LOAD_AND_CONTINUE, *learners, folder=tmp_path)
    assert ended.returncode == 0, ended.output
    for name, learner in learners.items():
        *state, value, losses = np.load(tmp_path / f"{name}.npz").values()
        for saved, weight in zip(
            state, (*learner.weights, *learner.optimizer.variables), strict=True
        ):
            np.testing.assert_array_equal(saved, weight, err_msg=f"{name}: {weight.path}")
        np.testing.assert_allclose(value, learner.test_on_batch(x, labels), rtol=1e-6)
        if name == "proxy_synthesis":
            # Keras does not save how far a sequence of random numbers has come.
            continue
        continued = [learner.train_on_batch(x, labels) for _ in range(2)]
        np.testing.assert_allclose(losses, continued, rtol=1e-5, err_msg=name)
