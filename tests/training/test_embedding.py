import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner, embed, inference


@pytest.fixture
def embedder():
    """Dropout and batch normalisation tell training from inference."""
    inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization()(keras.layers.Dense(4)(inputs))
    return keras.Model(inputs, [keras.layers.Dropout(0.5)(x), keras.layers.Dense(2)(x)])


def dataset(count=7, batch_size=3, column=False):
    x = np.random.default_rng(0).normal(size=(count, 3)).astype("float32")
    labels = 2**40 + np.arange(count)
    labels = labels[:, None] if column else labels
    return x, tf.data.Dataset.from_tensor_slices((x, labels)).batch(batch_size)


@pytest.mark.parametrize("column", [False, True])
def test_embeds_in_order_and_in_inference_mode(embedder, column):
    x, data = dataset(column=column)
    expected = embedder(x, training=False)[0]
    learner = MetricLearner(embedder, ContrastiveLoss())
    for model in (embedder, learner, inference(embedder)):
        embeddings, labels = embed(model, data)
        np.testing.assert_allclose(embeddings, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(labels, 2**40 + np.arange(7))
        assert embeddings.dtype == np.float32 and np.issubdtype(labels.dtype, np.integer)


@pytest.mark.parametrize("counts", [(7, 5, 1), (1, 7, 5, 1)])
def test_traced_once_for_batches_of_every_size_but_a_first_single_image(embedder, counts):
    is_trace = []
    call = embedder.call
    embedder.call = lambda *arguments, **keywords: (
        is_trace.append(not tf.executing_eagerly()),
        call(*arguments, **keywords),
    )[1]
    forward = inference(embedder)
    for count in counts:
        images, data = dataset(count)
        expected = call(images, training=False)[0]
        np.testing.assert_allclose(embed(forward, data)[0], expected, rtol=1e-5, atol=1e-6)
    assert is_trace == ([True] if counts[0] > 1 else [False, True])


def test_arrays_that_are_no_data_set_are_refused_by_name(embedder):
    images = np.zeros((4, *embedder.input_shape[1:]), "float32")
    with pytest.raises(ValueError, match="Labels are needed: .* received one array"):
        embed(embedder, images)
    with pytest.raises(ValueError, match="received 4 and 3"):
        embed(embedder, (images, [0, 0, 1]))
    for labels, dtype in ((["cat", "cat", "dog", "dog"], "<U3"), (np.ones((4, 1)), "float64")):
        for data in ((images, labels), [(images, labels)]):
            with pytest.raises(TypeError, match=f"integers; received dtype {dtype}.*inverse"):
                embed(embedder, data)


NAMES = {"list": [0, 1], "tuple": (0, 1), "dict": {"zoom": 0, "meta": 1}}


def two_inputs(kind, first, second):
    return keras.tree.map_structure(lambda number: (first, second)[number], NAMES[kind])


def two_input_embedder(kind):
    image, meta = keras.Input((3,), name="zoom"), keras.Input((2,), name="meta", dtype="int32")
    coded = keras.layers.Flatten()(keras.layers.Embedding(5, 2)(meta))
    embeddings = keras.layers.Dense(4)(keras.layers.Concatenate()([image, coded]))
    outputs = {"vector": embeddings, "attributes": keras.layers.Dense(2)(image)}
    return keras.Model(two_inputs(kind, image, meta), outputs)


class Batches(keras.utils.PyDataset):
    """Batches of inputs and labels, of which the last is smaller."""

    def __init__(self, inputs, labels):
        super().__init__()
        self.inputs, self.labels = inputs, labels

    def __len__(self):
        return -(-len(self.labels) // 3)

    def __getitem__(self, number):
        rows = slice(3 * number, 3 * number + 3)
        return keras.tree.map_structure(lambda x: x[rows], self.inputs), self.labels[rows]


def forms_of(inputs, labels):
    """The same data as arrays, a PyDataset, a list of batches, tf.data, and a loader of PyTorch."""
    batches = Batches(inputs, labels)
    rows = [
        (keras.tree.map_structure(lambda x, row=row: x[row], inputs), label)
        for row, label in enumerate(labels)
    ]
    of_tensors = tuple(inputs) if isinstance(inputs, list) else inputs
    return {
        "arrays": (inputs, labels),
        "PyDataset": batches,
        "list": list(batches),
        "tf.data": tf.data.Dataset.from_tensor_slices((of_tensors, labels)).batch(3),
        "loader": torch.utils.data.DataLoader(rows, batch_size=3),
    }


@pytest.mark.parametrize("kind", NAMES)
def test_embedders_with_several_inputs_and_outputs(kind):
    rng = np.random.default_rng(0)
    images, meta = rng.normal(size=(7, 3)).astype("float32"), rng.integers(0, 5, (7, 2), "int32")
    inputs, labels = two_inputs(kind, images, meta), np.arange(7)
    embedder = two_input_embedder(kind)
    expected = keras.ops.convert_to_numpy(embedder(inputs)["vector"])
    forward = inference(embedder)
    for form in forms_of(inputs, labels).values():
        embeddings, found = embed(forward, form)
        np.testing.assert_allclose(embeddings, expected, rtol=1e-5, atol=1e-6)
        assert np.array_equal(found, labels)


def test_two_batches_of_two_inputs_are_no_pair_of_arrays():
    inputs, labels = (np.eye(3, dtype="float32"), np.ones((3, 2), "int32")), np.arange(3)
    embedder = two_input_embedder("tuple")
    embeddings, found = embed(embedder, ((inputs, labels), (inputs, labels)))
    assert found.tolist() == [0, 1, 2, 0, 1, 2] and embeddings.shape == (6, 4)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (lambda a, b, y: ((a, b), y, np.ones(4)), "take no sample weights: give batches"),
        (lambda a, b, y: ((a, b),), r"Labels are needed: .* received"),
        (lambda a, b, y: {"a": a, "b": b}, r"Labels are needed: .* received \{a: ndarray \(4, 3\)"),
        (lambda a, b, y: ((a, b), {"y": y}), "the labels one array; received"),
        (lambda a, b, y: ((a, b[:2]), y), "equally many; received 4, 2 and 4"),
    ],
)
def test_other_batches_are_refused_in_one_sentence(batch, message):
    arrays = np.ones((4, 3), "float32"), np.ones((4, 2), "int32"), np.arange(4)
    with pytest.raises(ValueError, match=message):
        embed(two_input_embedder("tuple"), [batch(*arrays)])
