"""Writes plans of POT and OTT-JAX to tests/oracles/set_transport.npz.

It runs in an environment with both (https://pythonot.github.io, https://ott-jax.readthedocs.io),
which the library does not need:

    python -m venv /path/to/venv
    /path/to/venv/bin/pip install pot==0.9.7.post1 ott-jax==0.6.0
    /path/to/venv/bin/python tools/transport/reference.py tests/oracles/set_transport.npz

Sinkhorn's iteration of both (`ot.bregman.sinkhorn_log`, `ott.solvers.linear.sinkhorn`) solves the
smoothed problem of `gsp_tf.ops.partial_set_transport` when a row and a column are added for the
residuals, at cost 0, and the entry where they meet may not be used. OTT-JAX gives the gradients
of the implicit function, too. They are written for the smoothest plan of each case, with a quarter
more mass in the columns: at equal masses, programs differ in which set limits the plan.
`ot.partial.partial_wasserstein` solves the linear program, its limit without smoothing.
`ot.partial.entropic_partial_wasserstein` smooths the plan but not the residuals. It has the same
limit, and is written for the largest ε of each case alone.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import ot
from ott.geometry.geometry import Geometry
from ott.problems.linear.linear_problem import LinearProblem
from ott.solvers.linear.sinkhorn import Sinkhorn

jax.config.update("jax_enable_x64", True)
FORBIDDEN = 1e6


def extended(cost, rows, columns, mass):
    """Cost and marginals with a first row and column for the residuals."""
    larger = np.zeros(np.add(cost.shape, 1))
    larger[1:, 1:] = cost
    larger[0, 0] = FORBIDDEN
    return (
        np.concatenate([[columns.sum() - mass], rows]),
        np.concatenate([[rows.sum() - mass], columns]),
        larger,
    )


@jax.jit
def plan_of_ott(cost, rows, columns, ratio, eps):
    """Plan that can be differentiated as the implicit function of its constraints."""
    mass = ratio * jnp.minimum(rows.sum(), columns.sum())
    a = jnp.append(columns.sum() - mass, rows)
    b = jnp.append(rows.sum() - mass, columns)
    larger = jnp.pad(cost, ((1, 0), (1, 0))).at[0, 0].set(FORBIDDEN)
    solver = Sinkhorn(threshold=1e-13, max_iterations=10**5)
    return solver(LinearProblem(Geometry(larger, epsilon=1 / eps), a, b)).matrix[1:, 1:]


def problem(rng, number):
    """A cost between random or related tokens, with weights of equal or different sums."""
    m, n = [(5, 7), (8, 4), (6, 6), (9, 9)][number]
    x, y = rng.normal(size=(m, 16)), rng.normal(size=(n, 16))
    common = min(m, n) // 2
    y[:common] = x[:common] + 0.4 * rng.normal(size=(common, 16))
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y))
    rows, columns = rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(n)) * (1 + number % 2)
    return 1 - x @ y.T, rows, columns


def main(path):
    rng, rng_of_gradients, arrays = np.random.default_rng(0), np.random.default_rng(1), {}
    for number, (ratio, smoothings) in enumerate(
        [(0.5, (1, 10, 50)), (0.9, (2, 20, 40)), (0.2, (5, 25)), (0.99, (5, 25))]
    ):
        cost, rows, columns = problem(rng, number)
        mass = ratio * min(rows.sum(), columns.sum())
        arrays |= {f"{number}/cost": cost, f"{number}/rows": rows, f"{number}/columns": columns}
        arrays |= {f"{number}/ratio": ratio, f"{number}/smoothings": np.array(smoothings)}
        for eps in smoothings:
            a, b, larger = extended(cost, rows, columns, mass)
            plan = ot.bregman.sinkhorn_log(a, b, larger, 1 / eps, numItermax=10**6, stopThr=1e-13)
            assert np.abs(plan.sum(0) - b).sum() + np.abs(plan.sum(1) - a).sum() < 1e-11
            other = plan_of_ott(cost, rows, columns, ratio, eps)
            np.testing.assert_allclose(plan[1:, 1:], other, rtol=0, atol=1e-12)
            arrays[f"{number}/plan {eps}"] = plan[1:, 1:]
        upstream = rng_of_gradients.normal(size=cost.shape)
        settings = ratio, smoothings[0]
        _, pull_back = jax.vjp(
            lambda *x, of=settings: plan_of_ott(*x, *of),
            *(jnp.asarray(x) for x in (cost, rows, 1.25 * columns)),
        )
        names = "cost", "rows", "columns"
        arrays |= {
            f"{number}/gradient of {name}": gradient
            for name, gradient in zip(names, pull_back(upstream), strict=True)
        }
        arrays[f"{number}/upstream"] = upstream
        arrays[f"{number}/limit"] = ot.partial.partial_wasserstein(rows, columns, cost, m=mass)
        arrays[f"{number}/without entropy of the residuals"] = (
            ot.partial.entropic_partial_wasserstein(
                rows, columns, cost, 1 / smoothings[-1], m=mass, numItermax=10**5, stopThr=1e-13
            )
        )
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
