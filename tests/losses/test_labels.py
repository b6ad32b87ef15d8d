"""Labels of any integer type: equal ones stay equal, different ones stay different, or an error."""

import keras
import numpy as np
import processes
import pytest
from gradients import BACKEND, EAGERLY

from gsp_tf import losses

VECTORS = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
PAIRS = np.arange(8) // 2
LARGE = {
    "steps": PAIRS * 2**32,
    "offset": PAIRS + 2**62,
    "uint64": (PAIRS * 2**61).astype("uint64"),
    "list": [2**40 + int(i) for i in PAIRS],
    "objects": (PAIRS * 2**40).astype(object),
}
MERGED = [
    (PAIRS.astype("uint64") + 2**63, "lie in"),
    ([2**63, *range(7)], "lie in"),
    ([-1, 2**64 - 1, *range(6)], "lie in"),
    (np.arange(8, dtype="float32") + 2**24, "whole numbers from 16777216"),
    (np.arange(8, dtype="float16") + 2**11, "whole numbers from 2048"),
]


@pytest.mark.parametrize("labels", LARGE.values(), ids=LARGE)
def test_large_labels_are_told_apart(labels):
    loss = losses.ContrastiveLoss()
    assert float(loss(labels, VECTORS)) == float(loss(PAIRS, VECTORS))
    large = loss.pairwise(labels, VECTORS, labels, VECTORS, exclude_self=True)
    expected = loss.pairwise(PAIRS, VECTORS, PAIRS, VECTORS, exclude_self=True)
    assert float(large) == float(expected)


@pytest.mark.parametrize(("jit_compile", "column"), [(False, True), (True, False)])
def test_labels_keep_their_digits_in_a_keras_model(jit_compile, column):
    # Neighbours that float32 cannot tell apart: it would take them for one class.
    labels = 2**24 + PAIRS
    assert len(set(labels.astype("float32"))) < 4
    loss = losses.ContrastiveLoss()
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    # PyTorch would trace the model with its own compiler.
    jit_compile = jit_compile and BACKEND != "torch"
    eagerly = EAGERLY and not jit_compile
    model.compile("sgd", loss=loss, jit_compile=jit_compile, run_eagerly=eagerly)
    given = labels[:, None] if column else labels
    expected = float(loss(labels, model(VECTORS)))
    assert model.evaluate(VECTORS, given, verbose=0) == pytest.approx(expected, rel=1e-5)
    if not jit_compile:
        history = model.fit(VECTORS, given, verbose=0).history["loss"]
        assert history[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("labels", "message"), MERGED)
def test_labels_that_would_merge_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        losses.ContrastiveLoss()(labels, VECTORS)


@pytest.mark.tensorflow
def test_tensors_of_uint64_do_not_wrap():
    import tensorflow as tf

    loss, labels = losses.ContrastiveLoss(), tf.constant(PAIRS, tf.uint64)
    assert float(loss(labels, VECTORS)) == float(loss(PAIRS, VECTORS))
    largest = tf.fill((8,), tf.constant(2**64 - 1, tf.uint64))
    with pytest.raises(ValueError, match="Labels must lie in 0 to 9223372036854775807"):
        loss.pairwise(largest, VECTORS, np.full(8, -1), VECTORS)


@pytest.mark.tensorflow
def test_a_list_of_tensors_in_a_graph_is_labels():
    import tensorflow as tf

    loss = losses.ContrastiveLoss()
    graph = tf.function(lambda labels: loss(tf.unstack(labels), VECTORS), autograph=False)
    assert float(graph(tf.constant(PAIRS))) == float(loss(PAIRS, VECTORS))


WITHOUT_INT64 = """
import numpy as np, keras
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.ops import label_relation
from gsp_tf.training import MetricLearner
x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
labels = np.arange(8) * 2**32
def message(call):
    try:
        return f"accepted, {call()}"
    except ValueError as error:
        return str(error)
print(message(lambda: ContrastiveLoss()(labels, x)))
print(message(lambda: label_relation(labels, labels, "equal")))
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
learner = MetricLearner(model, ContrastiveLoss())
learner.compile("sgd")
for of in (learner.fit, learner.evaluate):
    print(message(lambda: of(x, labels, verbose=0)))
for of in (learner.train_on_batch, learner.test_on_batch):
    print(message(lambda: of(x, labels)))
print(message(lambda: learner.fit(x, labels // 2**32, verbose=0) and "finite"))
"""


def test_jax_refuses_what_its_int32_would_merge():
    found = processes.run_fresh("-c", WITHOUT_INT64, KERAS_BACKEND="jax", JAX_ENABLE_X64="0")
    *refused, small = found.splitlines()
    assert len(refused) == 6
    assert all("must lie in -2147483648 to 2147483647, received " in x for x in refused)
    assert small == "accepted, finite"
