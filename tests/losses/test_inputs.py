import keras
import numpy as np
import pytest
from gradients import BACKEND

from gsp_tf.losses import ProxyNCALoss
from gsp_tf.losses._inputs import check_inputs

EMBEDDINGS = np.ones((3, 4), "float32")
# TensorFlow alone has tensors of strings.
TEXT = "string" if BACKEND == "tensorflow" else "list"


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize(
    "dtype",
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    + ["float16", "float32", "float64"],
)
def test_accepts_whole_labels_of_every_type(shape, dtype):
    labels = np.array([0, 2, 5], dtype).reshape(shape)
    tensors = [keras.ops.convert_to_tensor(labels.astype("int64"), "bfloat16")]
    if BACKEND != "torch" or dtype not in ("uint16", "uint32", "uint64"):  # PyTorch lacks them
        tensors.append(keras.ops.convert_to_tensor(labels))
    for given in (labels, labels.tolist(), *tensors):
        flat, embeddings, is_valid = check_inputs(given, EMBEDDINGS, num_classes=6)
        assert np.asarray(flat).tolist() == [0, 2, 5] and bool(is_valid)
        dtypes = [keras.backend.standardize_dtype(x.dtype) for x in (flat, embeddings)]
        assert dtypes == ["int32", "float32"]
    flat = check_inputs(labels, EMBEDDINGS)[0]
    assert keras.backend.standardize_dtype(flat.dtype) == "int64"


@pytest.mark.parametrize(
    ("labels", "embeddings", "message"),
    [
        *(
            ([0.0, broken, 1.0], EMBEDDINGS, f"Labels must be whole numbers, received {broken:g}")
            for broken in (0.5, np.nan)
        ),
        ([True, False, True], EMBEDDINGS, "Labels must be of an integer type, received bool"),
        (["a", "b", "c"], EMBEDDINGS, f"Labels must be of an integer type, received {TEXT}"),
        (None, EMBEDDINGS, "Labels must be of an integer type, received None"),
        *(
            (np.array(x, object), EMBEDDINGS, "Labels must be of an integer type, received .*")
            for x in ([0, None, 2], [0.2, 0.7, 1], [True, 2**63, 0])
        ),
        (0, EMBEDDINGS[:1], r"A loss takes integer labels .*received labels of shape \(\) and .*"),
        ([0, 1, 2], None, "Embeddings must be of a floating type, received None"),
        ([0, 1, 2], [["a"]], f"Embeddings must be of a floating type, received {TEXT}"),
    ],
)
def test_refuses_what_are_no_labels_and_embeddings(labels, embeddings, message):
    with pytest.raises(ValueError, match=f"^{message}.$"):
        check_inputs(labels, embeddings)


@pytest.mark.parametrize("label", [-1, 5, 2**32 + 1, 2**40])
def test_refuses_labels_that_are_no_class(label):
    with pytest.raises(ValueError, match=rf"0 to 4 \(num_classes=5\), received {label}\."):
        check_inputs([0, label, 4], EMBEDDINGS, num_classes=5)
    flat, *_ = check_inputs([0, label, 4], EMBEDDINGS)
    assert np.asarray(flat).tolist() == [0, label, 4]


@pytest.mark.tensorflow
@pytest.mark.parametrize("batch_size", [3, None])
def test_refuses_one_hot_labels_when_the_batch_size_is_unknown_too(batch_size):
    import tensorflow as tf

    specs = [tf.TensorSpec((batch_size, 5), "int32"), tf.TensorSpec((batch_size, 4))]
    with pytest.raises(ValueError, match=r"shape \(\w+, 5\).*one-hot label is its argmax"):
        tf.function(check_inputs, autograph=False).get_concrete_function(*specs)


@pytest.mark.tensorflow
@pytest.mark.parametrize("labels", [(None,), (None, 1), (None, None), None])
@pytest.mark.parametrize("embeddings", [(None, 4), (3, 4), None])
def test_accepts_shapes_that_are_not_known(labels, embeddings):
    import tensorflow as tf

    specs = [tf.TensorSpec(labels, "int64"), tf.TensorSpec(embeddings, "float32")]
    run = tf.function(lambda *batch: check_inputs(*batch), specs, autograph=False)
    shape = (-1, 1)[: len(labels or [None])]
    flat, _, is_valid = run(tf.reshape(tf.range(3, dtype="int64"), shape), EMBEDDINGS)
    assert flat.numpy().tolist() == [0, 1, 2] and bool(is_valid)
    with pytest.raises(tf.errors.InvalidArgumentError, match="one label for each embedding"):
        run(tf.reshape(tf.range(9, dtype="int64"), shape), EMBEDDINGS)


def test_symbolic_tensors_make_a_functional_model():
    labels, embeddings = keras.Input((1,), dtype="int32"), keras.Input((4,))
    model = keras.Model([labels, embeddings], ProxyNCALoss(3)(labels, embeddings))
    assert np.isfinite(float(model([np.array([[0], [2], [1]]), EMBEDDINGS])))
    with pytest.raises(ValueError, match="Labels must lie in 0 to 2"):
        model([np.array([[0], [3], [1]]), EMBEDDINGS])
