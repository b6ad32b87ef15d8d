import numpy as np
import pytest
from gradients import BACKEND, at_once, differentiated

from gsp_tf.ops import partial_set_transport, partial_transport

RNG = np.random.default_rng(0)
COST = RNG.uniform(0, 2, (2, 4, 6))
ROWS, COLUMNS = RNG.dirichlet(np.ones(4), 2), 0.7 * RNG.dirichlet(np.ones(6), 2)


def solved(cost, ratio, eps, rows=None, columns=None, **options):
    """Plan and residuals as arrays."""
    given = {"row_weights": rows, "column_weights": columns}
    tensors = [x for x in (cost, *given.values()) if x is not None]

    def run(cost, *weights):
        names = [name for name, x in given.items() if x is not None]
        return partial_set_transport(
            cost, ratio, eps, **dict(zip(names, weights, strict=True)), **options
        )

    return [np.asarray(x) for x in at_once(run)(*tensors)]


def problem(oracle, number):
    """A problem of other programs and their solutions, by name."""
    found = oracle("set_transport")
    return {k[2:]: v for k, v in found.items() if k.startswith(f"{number}/")}


@pytest.mark.parametrize("number", range(4))
def test_equals_plans_of_pot_and_ott_and_their_limit(oracle, number):
    case = problem(oracle, number)
    cost, rows, columns = case["cost"], case["rows"], case["columns"]
    for eps in case["smoothings"][-1 if BACKEND == "jax" else 0 :]:
        plan, left, missed = solved(cost, float(case["ratio"]), float(eps), rows, columns)
        np.testing.assert_allclose(plan, case[f"plan {eps}"], rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(plan.sum(1) + left, rows, rtol=1e-12)
        np.testing.assert_allclose(plan.sum(0) + missed, columns, atol=1e-13)
    # The entropies of N entries with sum S differ by at most S log N.
    least = (cost * case["limit"]).sum()
    entropy = (rows.sum() + columns.sum()) * np.log(cost.size + len(rows) + len(columns))
    costs = (cost * plan).sum(), (cost * case["without entropy of the residuals"]).sum()
    assert least < min(costs) and max(costs) - least < entropy / case["smoothings"][-1]


@pytest.mark.parametrize("number", range(4))
def test_gradients_are_those_of_ott(oracle, number):
    case = problem(oracle, number)
    names, settings = ("cost", "rows", "columns"), (float(case["ratio"]), case["smoothings"][0])
    _, gradients = differentiated(
        lambda cost, *weights: partial_set_transport(cost, *settings, *weights)[:1],
        case["cost"],
        case["rows"],
        1.25 * case["columns"],  # where both have the same mass, programs differ in the gradient
        upstream=(case["upstream"],),
    )
    for name, gradient in zip(names, gradients, strict=True):
        np.testing.assert_allclose(gradient, case[f"gradient of {name}"], rtol=1e-6, atol=1e-10)


def test_gradients_are_those_of_finite_differences():
    up = [RNG.normal(size=shape) for shape in ((4, 6), (4,), (6,))]
    point, step = np.concatenate([COST[0].ravel(), ROWS[0], COLUMNS[0]]), 1e-5

    def parts(points):
        cost, rows, columns = np.split(points, [24, 28], axis=-1)
        return cost.reshape(*points.shape[:-1], 4, 6), rows, columns

    def target(points):
        outputs = solved(parts(points)[0], 0.6, 12.0, *parts(points)[1:])
        return sum(
            (y * g).reshape(len(points), -1).sum(1) for y, g in zip(outputs, up, strict=True)
        )

    moves = step * np.eye(len(point))
    numeric = (target(point + moves) - target(point - moves)) / (2 * step)
    outputs, gradients = differentiated(
        lambda cost, rows, columns: partial_set_transport(cost, 0.6, 12.0, rows, columns),
        *parts(point),
        upstream=tuple(up),
    )
    assert outputs[0].dtype == np.float64
    for gradient, expected in zip(gradients, parts(numeric), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("ratio", "eps"), [(0.02, 100.0), (0.5, 1e-3), (1.0, 100.0)])
def test_keeps_its_constraints_in_float32(ratio, eps):
    cost, rows, columns = (x.astype("float32") for x in (COST, ROWS, COLUMNS))
    plan, left, missed = solved(cost, ratio, eps, rows, columns)
    assert plan.dtype == np.float32 and min(plan.min(), left.min(), missed.min()) >= 0
    np.testing.assert_allclose(plan.sum(2) + left, rows, rtol=1e-5)
    tolerance = 8 * (8 + eps / 2) * 2.0**-23
    assert (np.abs(plan.sum(1) + missed - columns).sum(1) < tolerance).all()
    np.testing.assert_allclose(plan.sum((1, 2)), ratio * 0.7, atol=tolerance)


def test_a_constant_in_the_costs_changes_nothing():
    for shifted, plain in zip(solved(COST + 50, 0.5, 20.0), solved(COST, 0.5, 20.0), strict=True):
        np.testing.assert_allclose(shifted, plain, rtol=1e-9, atol=1e-12)


def test_absent_tokens_change_nothing_and_an_empty_set_gets_nothing():
    rows, columns = ROWS.copy(), COLUMNS.copy()
    rows[0, 1] = columns[0, [0, 4]] = 0
    columns[1] = 0
    outputs, gradients = differentiated(
        lambda *x: partial_set_transport(x[0], 0.4, 8.0, *x[1:]), COST, rows, columns
    )
    kept = np.ix_([0, 2, 3], [1, 2, 3, 5])
    expected = solved(COST[0][kept], 0.4, 8.0, rows[0, kept[0][:, 0]], columns[0, kept[1][0]])
    np.testing.assert_allclose(outputs[0][0][kept], expected[0], rtol=1e-9)
    assert outputs[0][0].sum() == pytest.approx(expected[0].sum()) and not outputs[0][1].any()
    np.testing.assert_allclose(outputs[1][1], rows[1])
    for gradient in gradients:
        assert np.isfinite(gradient).all()


def test_a_large_second_set_is_the_transport_of_one():
    plan, _, missed = solved(COST, 0.3, 5.0, np.full((2, 4), 1e7))
    residual, expected = (np.asarray(x) for x in partial_transport(COST, 0.3, 5.0))
    np.testing.assert_allclose(plan, expected, rtol=1e-6)
    np.testing.assert_allclose(missed, residual, rtol=1e-6)


def test_warns_of_what_it_has_not_solved():
    with pytest.warns(UserWarning, match="has not converged: its columns are .*% of the mass off"):
        partial_set_transport(COST, 0.9, 100.0, max_iterations=1)
