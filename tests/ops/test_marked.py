import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.ops.marked import fold_marked


def visits(marked):
    """When each entry is visited, from 1, and the columns of all steps."""
    marked = tf.convert_to_tensor(marked)

    def visit(columns, is_mark, number, when, total):
        taken = tf.gather(columns[:, 0], [0])
        when = tf.where(is_mark, number + 1, when)
        return number + 1, when, total + tf.reduce_sum(taken)

    return fold_marked(marked, visit, (0, tf.zeros_like(marked, "int32"), 0))


@settings(max_examples=15)
@given(rows=st.integers(1, 4), columns=st.integers(1, 8), seed=st.integers(0, 1000))
def test_every_mark_is_visited_once_from_the_left(rows, columns, seed):
    marked = np.random.default_rng(seed).random((rows, columns)) < 0.4
    steps, when, _ = visits(marked)
    np.testing.assert_array_equal(when, np.where(marked, np.cumsum(marked, axis=1), 0))
    assert int(steps) == marked.sum(axis=1).max()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_compiled_with_and_without_known_sizes(jit_compile):
    marked = np.array([[True, False, True, True], [False, True, False, False]])
    run = tf.function(visits, jit_compile=jit_compile)
    unknown = tf.function(
        visits, jit_compile=jit_compile, input_signature=[tf.TensorSpec((None, None), "bool")]
    )
    for function in (run, unknown):
        steps, when, columns_of_first_row = function(marked)
        assert int(steps) == 3 and int(columns_of_first_row) == 0 + 2 + 3
        np.testing.assert_array_equal(when, [[1, 0, 2, 3], [0, 1, 0, 0]])


def test_no_gradient_flows():
    values = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(values)
        (total,) = fold_marked(values > 0, lambda c, m, total: (total * values,), (values,))
    np.testing.assert_array_equal(total, [[1, 8]])
    assert tape.gradient(total, values) is None
