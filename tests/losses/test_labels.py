import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses.labels import check_labels

EMBEDDINGS = np.ones((3, 4), "float32")


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64"]
)
def test_accepts_whole_labels_of_every_type(shape, dtype):
    labels = np.array([0, 2, 5], dtype).reshape(shape)
    for given in (labels, labels.tolist(), tf.constant(labels)):
        check_labels(given, EMBEDDINGS, num_classes=6)
    check_labels(tf.cast(labels, "bfloat16"), EMBEDDINGS, num_classes=6)


@pytest.mark.parametrize("broken", [0.5, -0.25, np.nan, np.inf])
def test_refuses_labels_that_are_not_whole(broken):
    with pytest.raises(ValueError, match=f"must be whole numbers, received {broken:g}"):
        check_labels([0.0, broken, 1.0], EMBEDDINGS)


def test_refuses_booleans():
    with pytest.raises(ValueError, match="must be of an integer type, received bool"):
        check_labels([True, False, True], EMBEDDINGS)


@pytest.mark.parametrize("label", [-1, 5, 2**40])
def test_refuses_labels_that_are_no_class(label):
    with pytest.raises(ValueError, match=rf"0 to 4 \(num_classes=5\), received {label}\."):
        check_labels([0, label, 4], EMBEDDINGS, num_classes=5)
    check_labels([0, label, 4], EMBEDDINGS)


@pytest.mark.parametrize(
    ("labels", "embeddings"), [((3, 3), (3, 4)), ((2,), (3, 4)), ((3,), (3,)), ((3,), (3, 4, 5))]
)
@pytest.mark.parametrize("compiled", [False, True])
def test_refuses_shapes_that_do_not_fit(labels, embeddings, compiled):
    run = tf.function(check_labels) if compiled else check_labels
    message = r"takes integer labels \(B,\) or \(B, 1\) and embeddings \(B, D\), received labels of"
    with pytest.raises(ValueError, match=message):
        run(tf.zeros(labels, "int32"), tf.zeros(embeddings))


@pytest.mark.parametrize("labels", [(None,), (None, 1), None])
@pytest.mark.parametrize("embeddings", [(None, 4), (3, 4), None])
def test_accepts_shapes_that_are_not_known(labels, embeddings):
    specs = [tf.TensorSpec(labels, "int64"), tf.TensorSpec(embeddings, "float32")]
    tf.function(check_labels).get_concrete_function(*specs)


def test_does_not_look_at_values_in_a_compiled_function():
    run = tf.function(lambda labels: check_labels(labels, EMBEDDINGS, num_classes=2))
    run(tf.constant([0.5, 7.0, np.nan]))
