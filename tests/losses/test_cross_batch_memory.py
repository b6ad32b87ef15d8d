from functools import partial

import keras
import numpy as np
import pytest
from gradients import BACKEND, compiled, examples, recorded, value_and_gradients, value_of
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_examples import PAIR_LOSSES

from gsp_tf import losses
from gsp_tf.training import MetricLearner


def batches(sizes, columns=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.integers(0, classes, n), rng.normal(size=(n, columns))) for n in sizes]


class Ring:
    """The memory, with NumPy."""

    def __init__(self, memory):
        self.loss, self.capacity, self.count = memory.loss, memory.capacity, 0
        columns = () if memory.num_labels is None else (memory.num_labels,)
        self.rows = np.zeros((self.capacity, 3))
        self.labels = np.zeros((self.capacity, *columns), int)

    def write(self, labels, embeddings):
        if self.loss.normalize:
            embeddings = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        self.slots = [(self.count + i) % self.capacity for i in range(len(labels))]
        for slot, label, row in zip(self.slots, labels, embeddings, strict=True):
            self.rows[slot], self.labels[slot] = row, label
        self.count += len(labels)

    def loss_of(self, labels, embeddings):
        """Loss between the batch and the rest of the memory, which the batch is part of."""
        filled = min(self.count, self.capacity)
        others = np.ones((len(labels), filled), bool)
        held = np.arange(len(labels))[-self.capacity :]
        others[held, np.array(self.slots)[held]] = False
        return self.loss.pairwise(
            labels, embeddings, self.labels[:filled], self.rows[:filled], mask=others
        )


def assert_equals_a_ring(loss, steps, ring=None):
    ring = Ring(loss) if ring is None else ring
    loss.built or loss.build((None,), (None, 3))
    run = compiled(partial(recorded, loss), True if BACKEND == "jax" else None, loss.variables)
    for step, (labels, embeddings) in enumerate(steps):
        warm = step >= loss.warmup_steps
        if warm:
            ring.write(labels, embeddings)

        def expected(labels, embeddings, warm=warm):
            within = loss.loss(labels, embeddings)
            return ring.loss_of(labels, embeddings) + loss.batch_weight * within if warm else within

        value, gradient = run(*map(keras.ops.convert_to_tensor, (labels, embeddings)))
        expected_value, expected_gradient = value_and_gradients(expected, labels, embeddings)
        assert float(value) == pytest.approx(expected_value, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-7, atol=1e-12)
        filled = min(ring.count, ring.capacity)
        np.testing.assert_allclose(loss.memory[:filled], ring.rows[:filled], rtol=1e-12)
        np.testing.assert_array_equal(loss.memory_labels[:filled], ring.labels[:filled])
        assert (int(loss.num_enqueued), int(loss.num_steps)) == (ring.count, step + 1)


@settings(max_examples=examples(6))
@given(
    make=st.sampled_from(
        [
            partial(losses.ContrastiveLoss, 0.1, 1.2),
            partial(losses.CosineContrastiveLoss, 0.2),
            partial(losses.TripletLoss, 0.3, miner=losses.HardNegativeMiner()),
            partial(losses.MultiSimilarityLoss, miner=losses.MultiSimilarityMiner()),
        ]
    ),
    normalize=st.booleans(),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=7),
    spare=st.integers(0, 9),
    warmup_steps=st.sampled_from([0, 0, 1, 3]),
    batch_weight=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 1000),
)
def test_equals_a_ring(make, normalize, sizes, spare, warmup_steps, batch_weight, seed):
    inner, capacity = make(normalize=normalize), max(sizes) + spare
    loss = losses.CrossBatchMemory(inner, capacity, warmup_steps, batch_weight, dtype="float64")
    assert_equals_a_ring(loss, batches(sizes, seed=seed))


@pytest.mark.parametrize("start_at", [0, 2])
@pytest.mark.parametrize("sizes", [[4] * 8, [4, 4, 4, 1, 4, 4, 1, 4]])
def test_may_start_as_the_authors_program_does(start_at, sizes):
    inner = losses.ContrastiveLoss(0.1, 1.2)
    loss = losses.CrossBatchMemory(inner, 12, start_at, 1.0, True, dtype="float64")
    ring = Ring(loss)
    for pointer, (labels, embeddings) in enumerate(batches(sizes), start=1):
        ring.write(labels, embeddings)
        is_ready = pointer >= start_at + 3  # three batches of four fill the memory
        within = value_of(loss.loss, labels, embeddings)
        expected = within + value_of(ring.loss_of, labels, embeddings) * is_ready
        assert value_of(loss, labels, embeddings) == pytest.approx(expected, rel=1e-9)
        assert is_ready == (expected != within)
    assert losses.CrossBatchMemory.from_config(loss.get_config()).start_full


def prefixes():
    return losses.MatryoshkaLoss(losses.CosineContrastiveLoss(0.2), (2, 3), dtype="float64")


# Losses that look at more than one reference, or at references among themselves or in parts, and
# batches that are larger than the memory.
@pytest.mark.parametrize(
    ("make", "capacity", "sizes"),
    [
        (PAIR_LOSSES["lifted_structure"], 11, [3, 6, 6]),
        (PAIR_LOSSES["n_pairs"], 11, [3, 6, 6]),
        (PAIR_LOSSES["triplet_semi_hard"], 11, [3, 6, 6]),
        (prefixes, 11, [3, 6, 6]),
        (PAIR_LOSSES["contrastive"], 5, [8, 3, 13, 1]),
        (PAIR_LOSSES["fast_ap"], 5, [8, 3, 13, 1]),
    ],
)
def test_equals_a_ring_around_losses_of_whole_rows(make, capacity, sizes):
    loss = losses.CrossBatchMemory(
        make(), capacity, warmup_steps=1, batch_weight=0.3, dtype="float64"
    )
    assert_equals_a_ring(loss, batches([max(sizes)] * 3 if BACKEND == "jax" else sizes))


@pytest.mark.parametrize("make", [losses.MultiSimilarityLoss, losses.CosineContrastiveLoss])
def test_equals_a_ring_of_label_vectors(make):
    loss = losses.CrossBatchMemory(
        make(relation="jaccard"), 10, batch_weight=1.0, num_labels=5, dtype="float64"
    )
    rng = np.random.default_rng(0)
    steps = [(rng.integers(0, 2, (5, 5)), rng.normal(size=(5, 3))) for _ in range(4)]
    assert_equals_a_ring(loss, steps)


def test_equals_a_ring_of_many_embeddings():
    loss = losses.CrossBatchMemory(losses.CosineContrastiveLoss(0.2), 10_000, dtype="float64")
    loss.build((None,), (None, 3))
    ring = Ring(loss)
    ring.write(*batches([loss.capacity])[0])
    ring.count = 3 * loss.capacity - 4
    for weight, value in zip(loss.weights, (ring.rows, ring.labels, ring.count), strict=False):
        weight.assign(value)
    assert_equals_a_ring(loss, batches([7, 5], seed=1), ring)


@pytest.mark.parametrize(
    ("name", "warmup_steps", "size"),
    [("contrastive", 0, 1), ("multi_similarity", 5, 4), ("lifted_structure", 0, 23)],
)
def test_evaluation_neither_reads_nor_writes_the_memory(name, warmup_steps, size):
    steps = batches([5, 6, size])
    loss = losses.CrossBatchMemory(
        PAIR_LOSSES[name](), 12, warmup_steps, batch_weight=0.7, dtype="float64"
    )
    for labels, embeddings in steps[:2]:
        value_of(loss, labels, embeddings)
    before = [w.numpy() for w in loss.weights]
    labels, embeddings = steps[2]
    value, gradient = value_and_gradients(loss, labels, embeddings, training=False)
    alone, alone_gradient = value_and_gradients(loss.loss, labels, embeddings)
    assert value == alone and (alone > 0) == (size > 1)
    np.testing.assert_array_equal(gradient, alone_gradient)
    for weight, old in zip(loss.weights, before, strict=True):
        np.testing.assert_array_equal(weight, old)


def test_fit_compiled_with_xla():
    keras.config.set_dtype_policy("mixed_float16")
    (labels, features), *_ = batches([24])
    memory, twin = (losses.CrossBatchMemory(losses.CosineContrastiveLoss(), 10) for _ in range(2))
    embedder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    learner = MetricLearner(embedder, memory)
    learner.compile(keras.optimizers.SGD(0.0), jit_compile=BACKEND != "torch")
    history = learner.fit(features, labels, batch_size=8, epochs=2, verbose=0, shuffle=False)
    embeddings = learner.predict(features, verbose=0)
    parts = [slice(start, start + 8) for start in (0, 8, 16, 0, 8, 16)]
    values = [value_of(twin, labels[rows], embeddings[rows]) for rows in parts]
    for actual, steps in zip(history.history["loss"], (values[:3], values[3:]), strict=True):
        assert actual == pytest.approx(np.mean(steps), rel=1e-3)
    np.testing.assert_allclose(memory.memory, twin.memory, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(memory.memory_labels, twin.memory_labels)
    assert int(memory.num_enqueued) == int(twin.num_enqueued) == 48
