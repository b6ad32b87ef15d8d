"""Compares the code with printed equations: value and gradient, in double precision."""

import numpy as np
import pytest
from gradients import differentiated, finite_differences


def assert_as_printed(code, printed, *arrays, rtol=1e-6, gradient_tolerance=1e-5):
    """Assert that code and an equation, written from the paper alone, have the same gradients too.

    The code takes tensors and the equation arrays, all float64; both give a number. The tolerance
    of a gradient is a share of its largest entry.
    """
    value, gradients = differentiated(code, *(np.asarray(array, "float64") for array in arrays))
    assert float(value) == pytest.approx(float(printed(*arrays)), rel=rtol, abs=1e-12)
    for gradient, expected in zip(gradients, finite_differences(printed, *arrays), strict=True):
        bound = gradient_tolerance * max(np.abs(expected).max(), 1e-6)
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=bound)
