import numpy as np
import pytest
from gradients import compiled, differentiated
from printed import assert_as_printed

from gsp_tf.losses import prototype_diversity, similarity_consistency


def cosine(f_i, f_j):
    return f_i @ f_j / (np.linalg.norm(f_i) * np.linalg.norm(f_j))


@pytest.mark.equation("CRT", "3", "losses.prototype_diversity")
@pytest.mark.parametrize(("shape", "jit_compile"), [((3, 4), None), ((9, 2), None), ((2, 3), True)])
def test_diversity_equals_the_equation(shape, jit_compile):
    def printed(c):
        pairs = [(k, j) for k in range(len(c)) for j in range(len(c)) if k != j]
        return sum(abs(cosine(c[k], c[j])) for k, j in pairs) / len(pairs)

    code = compiled(prototype_diversity, jit_compile)
    assert_as_printed(code, printed, np.random.default_rng(0).normal(size=shape))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("prototypes", "expected"),
    [
        (np.eye(4), 0.0),
        (np.ones((4, 3)), 1.0),
        (np.full((4, 3), 6e4), 1.0),
        (np.zeros((4, 3)), 0.0),
        (np.ones((1, 3)), 0.0),
        (np.array([[1.0, 0, 0], [0, 0, 0], [1, 0, 0]]), 1 / 3),
    ],
)
def test_extreme_prototypes(prototypes, expected, dtype):
    value, (gradient,) = differentiated(prototype_diversity, prototypes.astype(dtype))
    assert value.dtype == "float32"
    assert float(value) == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


@pytest.mark.equation("CRT", "4", "losses.similarity_consistency")
@pytest.mark.equation(
    "CRT",
    "5",
    "losses.similarity_consistency",
    "mean over the pairs; the printed sum with reduction='sum'",
)
@pytest.mark.parametrize(
    ("rows", "reduction", "jit_compile"),
    [(5, "mean", None), (5, "sum", None), (2, "mean", None), (4, "mean", False), (5, "mean", True)],
)
def test_consistency_equals_the_equation(rows, reduction, jit_compile):
    def printed(a, b):
        pairs = [(i, j) for i in range(rows) for j in range(rows)]
        norm = sum(abs(cosine(a[i], a[j]) - cosine(b[i], b[j])) for i, j in pairs)
        return norm if reduction == "sum" else norm / rows**2

    code = compiled(lambda a, b: similarity_consistency(a, b, reduction), jit_compile)
    rng = np.random.default_rng(0)
    assert_as_printed(code, printed, rng.normal(size=(rows, 3)), rng.normal(size=(rows, 4)))
