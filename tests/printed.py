"""Compares the code with printed equations: value and gradient, in double precision."""

import numpy as np
import pytest
from gradients import differentiated, finite_differences


def value_and_gradients(function, *arrays):
    """Value of a function of float64 tensors and its gradient with respect to each."""
    return differentiated(function, *(np.asarray(array, "float64") for array in arrays))


def assert_as_printed(code, printed, *arrays, rtol=1e-6, gradient_tolerance=1e-5):
    """Assert that the code and the printed equation have the same value and gradients.

    Args:
        code: TensorFlow function from float64 tensors to a scalar.
        printed: NumPy function of the same float64 arrays, written from the paper alone.
        arrays: arguments of both functions.
        rtol: relative tolerance of the value.
        gradient_tolerance: tolerance of each gradient, as a share of its largest entry.
    """
    value, gradients = value_and_gradients(code, *arrays)
    assert float(value) == pytest.approx(float(printed(*arrays)), rel=rtol, abs=1e-12)
    for gradient, expected in zip(gradients, finite_differences(printed, *arrays), strict=True):
        bound = gradient_tolerance * max(np.abs(expected).max(), 1e-6)
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=bound)
