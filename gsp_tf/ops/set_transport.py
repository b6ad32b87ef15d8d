"""Entropy-smoothed transport of part of the mass between two weighted sets."""

import math
import warnings

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_sizes, check_transport
from gsp_tf._backend import concrete, custom_gradient, rounded
from gsp_tf._numerics import at_least_float32, solve_positive_definite
from gsp_tf._typing import Tensor

_FIRST_SPREAD = 4.0  # range of ε c at the start
_CLOSE = 0.1  # error over mass, below which ε doubles
_LENGTHS = (math.inf, 4.0, 1.0)  # limits of Newton's steps
_DAMPING = 0.1  # of Newton's system, over the error
_OUT_OF_REACH = -1e30


def partial_set_transport(
    cost: Tensor,
    transport_ratio: float,
    entropy_smoothing: float,
    row_weights: Tensor | None = None,
    column_weights: Tensor | None = None,
    max_iterations: int = 200,
) -> tuple[Tensor, Tensor, Tensor]:
    """Transport a fraction of the mass of one weighted set to another at the least smoothed cost.

    This is `partial_transport`, (P2) of "Generalized Sum Pooling for Metric Learning" (Gürbüz,
    Şener, Alatan, ICCV 2023), with a limit on both sets, so that both have a residual:

        min over π, ρ, σ >= 0 of
            Σ_ij c_ij π_ij + (1/ε) (Σ_ij π_ij log π_ij + Σ_i ρ_i log ρ_i + Σ_j σ_j log σ_j)
        subject to  ρ_i + Σ_j π_ij = a_i,   σ_j + Σ_i π_ij = b_j,   Σ_ij π_ij = μ min(Σ a, Σ b).

    Its solution is `π_ij = t ρ_i σ_j exp(-ε c_ij)`. The limit of ε → ∞ is partial transport
    (Chapel, Alaya, Gasso, "Partial Optimal Transport with Applications on Positive-Unlabeled
    Learning", NeurIPS 2020). As there, the residuals are the plan of an added row and column of
    cost 0, which makes it transport of all mass (Cuturi, NeurIPS 2013). For large b of equal
    entries, π and ρ are those of `partial_transport`.

    The solver raises ε in steps. In each iteration it takes the best of four: a step of Sinkhorn's
    iteration, which sets the transported mass by its log-odds, and Newton's step of three lengths.
    It stops when the columns are off by at most `(8 + r/4) eps max(Σ a, Σ b)` in sum, for the range
    r of `ε c` and the precision eps of the type, or by up to eight times as much where rounding
    allows no less. Rows are met within rounding. The gradient is that of the implicit function, one
    linear system of the size of the columns.

    Args:
        cost: finite float tensor `(..., m, n)`, cost c_ij of moving mass from row i to column j.
        transport_ratio: μ in (0, 1], the share of the smaller mass to transport.
        entropy_smoothing: ε > 0, inverse strength of the smoothing.
        row_weights: non-negative `(..., m)`, mass a_i of each row, 0 where it is absent; `None` is
            1/m.
        column_weights: non-negative `(..., n)`, mass b_j of each column, 0 where it is absent;
            `None` is 1/n.
        max_iterations: limit on the solver's iterations. With ε c below 50 it needs 5 to 20. It
            warns, when called eagerly, about a plan whose columns are off by more than 0.1%.

    Returns:
        plan π `(..., m, n)`, row residual ρ `(..., m)` and column residual σ `(..., n)`, float64 if
        an input is, else float32. A pair with an empty set has a plan of 0.

    Example:
        >>> import numpy as np
        >>> cost = np.array([[0.1, 0.9], [0.8, 0.2], [0.7, 0.9]], "float32")
        >>> plan, rows, columns = partial_set_transport(cost, 0.5, 50.0)
        >>> plan.numpy().round(2).tolist()
        [[0.33, 0.0], [0.0, 0.17], [0.0, 0.0]]
        >>> rows.numpy().round(2).tolist(), columns.numpy().round(2).tolist()
        ([0.0, 0.16, 0.33], [0.17, 0.33])
    """
    check_transport(transport_ratio, entropy_smoothing)
    check_sizes(max_iterations=max_iterations)
    weights = [w for w in (row_weights, column_weights) if w is not None]
    cost, *weights = at_least_float32(cost, *weights) if weights else [at_least_float32(cost)]
    rows = _weights(cost[..., 0], None if row_weights is None else weights[0])
    columns = _weights(cost[..., 0, :], None if column_weights is None else weights[-1])
    row_mass, column_mass = (ops.sum(x, axis=-1, keepdims=True) for x in (rows, columns))
    mass = transport_ratio * ops.minimum(row_mass, column_mass)
    unit = ops.maximum(row_mass, column_mass)
    unit = ops.where(unit > 0, unit, 1.0)
    # The added row takes what the columns keep, and the added column what the rows keep.
    rows = ops.concatenate([column_mass - mass, rows], axis=-1) / unit
    columns = ops.concatenate([row_mass - mass, columns], axis=-1) / unit

    @custom_gradient
    def transport(cost, rows, columns):
        logits = rounded(-entropy_smoothing * cost)
        # A constant added to the costs changes no plan.
        logits = _with_residuals(logits - ops.max(logits, axis=(-1, -2), keepdims=True))
        problem = _Problem(logits, rows, columns)
        plan, unmet = problem.solve(max_iterations)
        _warn_unless_converged(unmet)

        def gradient(upstream):
            of_logits, of_rows, of_columns = problem.gradient(plan, upstream)
            return -entropy_smoothing * of_logits[..., 1:, 1:], of_rows, of_columns

        return (plan,), gradient

    plan = transport(cost, rows, columns)[0] * ops.expand_dims(unit, -1)
    return plan[..., 1:, 1:], plan[..., 1:, 0], plan[..., 0, 1:]


class _Problem:
    """Smoothed transport of all mass between rows and columns, the first of which are residuals."""

    def __init__(self, logits, rows, columns):
        self.precision = float(np.finfo(keras.backend.standardize_dtype(logits.dtype)).eps)
        least = 8 * self.precision
        self.has_row, self.has_column = rows > least, columns > least
        self.rows = ops.where(self.has_row, rows, 0.0)
        self.columns = ops.where(self.has_column, columns, 0.0)
        moved = ops.sum(self.rows[..., 1:], axis=-1, keepdims=True) - self.columns[..., :1]
        self.logits, self.mass = logits, ops.maximum(moved, least)
        self.allowed = (
            ops.expand_dims(self.has_row, -1)
            & ops.expand_dims(self.has_column, -2)
            & _not_the_corner(logits)
        )
        self.spread = -ops.expand_dims(ops.min(logits, axis=(-1, -2)), -1)

    def plan(self, potentials, scale):
        """Plan that meets the rows, given the potentials of the columns and the scale of ε."""
        scores = rounded(ops.expand_dims(scale, -1) * self.logits) + ops.expand_dims(potentials, -2)
        scores = ops.where(self.allowed, scores, _OUT_OF_REACH)
        share = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
        share = ops.where(self.allowed, share, 0.0)
        total = ops.sum(share, axis=-1, keepdims=True)
        return ops.expand_dims(self.rows, -1) * share / ops.where(total > 0, total, 1.0)

    def error(self, plan):
        """Sum of the absolute errors of the columns."""
        return ops.sum(ops.abs(ops.sum(plan, axis=-2) - self.columns), axis=-1, keepdims=True)

    def solve(self, max_iterations):
        """The plan, and its error over the mass."""
        scale = ops.minimum(1.0, _FIRST_SPREAD / ops.maximum(self.spread, _FIRST_SPREAD))
        state = (self._start(scale), scale, ops.zeros_like(scale, dtype="bool"))
        potentials, scale, _ = ops.while_loop(
            lambda potentials, scale, done: ops.logical_not(ops.all(done)),
            self._advance,
            state,
            maximum_iterations=max_iterations,
        )
        plan = self.plan(potentials / scale, ops.ones_like(scale))
        return plan, self.error(plan) / self.mass

    def _start(self, scale):
        """Potentials for a plan without regard to the costs, with about the right mass."""
        potentials = ops.where(self.has_column, _log(self.columns), 0.0)
        return potentials + self._mass_step(self.plan(potentials, scale))

    def _mass_step(self, plan):
        """Change of the first potential that gives about the right mass, by its log-odds."""
        left, moved = self.columns[..., :1], self.mass
        of_plan = ops.sum(plan[..., 1:, :1], axis=-2)
        moved_by_plan = ops.expand_dims(ops.sum(plan[..., 1:, 1:], axis=(-1, -2)), -1)
        step = _log(left) - _log(of_plan) - _log(moved) + _log(moved_by_plan)
        step = ops.where(self.has_column[..., :1], step, 0.0)
        return ops.concatenate([step, ops.zeros_like(plan[..., 0, 1:])], axis=-1)

    def _advance(self, potentials, scale, done):
        """One iteration; a problem that is done keeps its potentials."""
        plan = self.plan(potentials, scale)
        found, before = ops.sum(plan, axis=-2), self.error(plan)
        sinkhorn = ops.where(self.has_column, _log(self.columns) - _log(found), 0.0)
        first = self._mass_step(plan)[..., :1]
        first = ops.where(self.has_column[..., :1], first, sinkhorn[..., :1])
        newton = self._newton(plan, found, before)
        longest = ops.max(ops.abs(newton), axis=-1, keepdims=True)
        steps = [newton * ops.minimum(1.0, length / (longest + 1e-30)) for length in _LENGTHS]
        steps = ops.stack([ops.concatenate([first, sinkhorn[..., 1:]], axis=-1), *steps])
        errors = self.error(self.plan(potentials + steps, scale))
        error = ops.min(errors, axis=0)
        # The first of equal ones: their number up to each is 1 for it alone.
        is_best = ops.cast(errors == error, steps.dtype)
        is_best = is_best * ops.cast(ops.cumsum(is_best, axis=0) == 1.0, steps.dtype)
        best = potentials + ops.sum(is_best * steps, axis=0)
        tolerance = self.precision * (8.0 + self.spread / 4.0)
        stalls = (error <= 8.0 * tolerance) & (error > 0.5 * before)
        ends = (scale >= 1.0) & ((error <= tolerance) | stalls)
        new_scale = ops.where(error <= _CLOSE * self.mass, ops.minimum(1.0, 2.0 * scale), scale)
        best = best * (new_scale / scale)
        potentials = ops.where(done, potentials, best)
        return potentials, ops.where(done, scale, new_scale), done | ends

    def _newton(self, plan, found, error):
        """Newton's step for the potentials; it is damped far from the solution."""
        root = ops.sqrt(ops.where(found > 0, found, 1.0))
        damping = _DAMPING * ops.minimum(1.0, error / self.mass)
        step = self._solved(plan, root, (self.columns - found) / root, damping) / root
        step = step - ops.max(ops.where(self.has_column, step, -math.inf), axis=-1, keepdims=True)
        return ops.where(self.has_column & ops.isfinite(step), step, 0.0)

    def _solved(self, plan, root, right, damping):
        """Solution of `(I - QᵀQ + qqᵀ) x = right`, `Q_ij = π_ij / sqrt(a_i b_j)`, `q = sqrt(b)`."""
        # QᵀQ has the eigenvalue 1 for q, as a constant added to the potentials changes nothing.
        scaled = plan / ops.expand_dims(ops.sqrt(ops.where(self.has_row, self.rows, 1.0)), -1)
        scaled = scaled / ops.expand_dims(root, -2)
        unit = ops.where(self.has_column, root, 0.0)
        unit = unit / ops.sqrt(ops.maximum(ops.sum(unit * unit, axis=-1, keepdims=True), 1e-30))
        size = ops.shape(plan)[-1]
        rounding = 4.0 * self.precision * (ops.cast(size, plan.dtype) + 8.0)
        system = ops.expand_dims(1.0 + rounding + damping, -1) * ops.eye(size, dtype=plan.dtype)
        system = system - ops.matmul(ops.swapaxes(scaled, -1, -2), scaled)
        system = system + ops.expand_dims(unit, -1) * ops.expand_dims(unit, -2)
        return solve_positive_definite(system, ops.expand_dims(right, -1))[..., 0]

    def gradient(self, plan, upstream):
        """Gradients of logits, rows and columns by the implicit function of the constraints."""
        moved = plan * upstream
        row_sums, column_sums = ops.sum(moved, axis=-1), ops.sum(moved, axis=-2)
        rows = ops.where(self.has_row, self.rows, 1.0)
        root = ops.sqrt(ops.where(self.has_column, self.columns, 1.0))
        right = column_sums - ops.sum(plan * ops.expand_dims(row_sums / rows, -1), axis=-2)
        of_columns = self._solved(plan, root, right / root, ops.zeros_like(self.mass)) / root
        of_columns = ops.where(self.has_column, of_columns, 0.0)
        of_rows = row_sums - ops.sum(plan * ops.expand_dims(of_columns, -2), axis=-1)
        of_rows = ops.where(self.has_row, of_rows / rows, 0.0)
        of_logits = plan * (
            upstream - ops.expand_dims(of_rows, -1) - ops.expand_dims(of_columns, -2)
        )
        return of_logits, of_rows, of_columns


def _weights(like, weights):
    """Weights `(..., n)` for the rows or columns of a cost, equal ones if there are none."""
    ones = ops.ones_like(like)
    return ones / ops.sum(ones, axis=-1, keepdims=True) if weights is None else ones * weights


def _with_residuals(logits):
    """Logits with a first row and column of 0."""
    logits = ops.concatenate([ops.zeros_like(logits[..., :1]), logits], axis=-1)
    return ops.concatenate([ops.zeros_like(logits[..., :1, :]), logits], axis=-2)


def _not_the_corner(logits):
    """False in the corner, so that no mass goes from one residual to the other."""
    row, column = (ops.arange(ops.shape(logits)[axis]) for axis in (-2, -1))
    return (row[:, None] + column) > 0


def _log(x):
    """Logarithm of numbers that may be 0."""
    return ops.log(ops.maximum(x, 1e-37))


def _warn_unless_converged(error):
    """Warn if the error of the columns is known and more than a thousandth of the mass."""
    largest = concrete(ops.max(error))
    if largest is not None and largest > 1e-3:
        warnings.warn(
            f"The transport has not converged: its columns are {largest:.1%} of the mass off. Take "
            "more max_iterations, or a smaller entropy_smoothing.",
            stacklevel=2,
        )
