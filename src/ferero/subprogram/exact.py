"""The exact solver: an interior point on scaled data, mended by an active-set solve, judged by our own residual.

The gramian of ``[A; B_g; B_h]`` is singular by construction and gradients may differ by twelve orders of magnitude,
so no solver's own status is believed. Scaling: constraint rows to unit length, one common factor for the order's rows
(equilibrating those makes their multipliers span 1e12), then sum and linear term jointly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import clarabel
import numpy as np
import piqp
from scipy import sparse
from scipy.optimize import linprog

from ferero.subprogram.program import EPSILON, Array, Program

__all__ = ["Answer", "is_inconsistent", "solve_exact"]

ACCEPTED = 1e-10  # relative residual at which an answer is taken without a second opinion
FAILED = 1e-6  # relative residual above which the linearised constraints are suspected to be inconsistent
SOLVER_TOLERANCE = 1e-12
OTHER_LENGTHS = (1e3, 1e-3)  # scales to try where the typical length was none


class Answer(NamedTuple):
    """Multipliers with their certificate, and who found them."""

    multipliers: Array
    residual: float
    solver: Literal["closed form", "piqp", "active set", "clarabel", "none"]


def solve_exact(program: Program) -> Answer:
    """The best multipliers found; the caller judges ``residual``.

    A bound is first left out: where the constraints can be met at less than its price it does not matter, and the
    program without slacks is the better conditioned one. Where it does matter, the multipliers that end at it are
    fixed there and the others solved for anew, for the same reason.
    """
    if np.isinf(program.bound) or len(program.linear) == len(program.simplex):
        return _solve(program)
    unpriced = replace(program, bound=np.inf)
    best = _judged(program, _solve(unpriced, last_resort=False))
    if best.residual > ACCEPTED:
        priced = _solve(program)
        best = _better(best, priced)
    if best.residual > ACCEPTED:
        best = _better(best, _judged(program, _with_saturated_fixed(program, best)))
    if best.residual > ACCEPTED:
        best = _better(best, _judged(program, _solve(unpriced)))
    return best


def _judged(program: Program, answer: Answer) -> Answer:
    """The same multipliers, held to this program's bounds."""
    return answer._replace(residual=program.residual(answer.multipliers))


def _with_saturated_fixed(program: Program, answer: Answer) -> Answer:
    lam, k_f, k = answer.multipliers, len(program.simplex), len(program.linear)
    saturated = np.abs(lam) >= program.bound * (1 - FAILED)
    saturated[:k_f] = False
    fixed = np.where(saturated, np.sign(lam) * program.bound, 0.0)
    rest = Program(
        rows=program.rows[~saturated],
        gramian=program.gramian,
        linear=(program.linear - program.quadratic @ fixed)[~saturated],
        simplex=program.simplex,
        total=program.total,
        equalities=int((~saturated[k - program.equalities :]).sum()),
    )
    solved = _solve(rest)
    fixed[~saturated] = solved.multipliers
    return solved._replace(multipliers=fixed)


def _solve(program: Program, *, last_resort: bool = True) -> Answer:
    closed = _closed_form(program)
    if closed is not None and (residual := program.residual(closed)) <= ACCEPTED:
        return Answer(closed, residual, "closed form")
    lam = _interior_point(program)
    best = Answer(lam, program.residual(lam), "piqp")
    if best.residual > ACCEPTED:
        best = _better(best, _mended(program, lam, "active set"))
    if best.residual > ACCEPTED and last_resort:
        best = _better(best, _mended(program, _second_opinion(program), "clarabel"))
        for length in OTHER_LENGTHS:
            if best.residual > ACCEPTED:
                best = _better(best, _mended(program, _interior_point(program, length), "active set"))
    return best


def _mended(program: Program, lam: Array, solver: Literal["active set", "clarabel"]) -> Answer:
    lam = _active_set(program, lam)
    return Answer(lam, program.residual(lam), solver)


def _better(first: Answer, second: Answer) -> Answer:
    return second if second.residual < first.residual else first


def _closed_form(program: Program) -> Array | None:
    """A resting row (no gradient) where nothing needs mending, or two rows and no constraints: a segment's point nearest 0."""
    k, k_f = len(program.linear), len(program.simplex)
    resting = (program.lengths[:k_f] == 0) & (program.simplex > 0) & (program.linear[:k_f] == 0)
    if resting.any() and not _unmet(program).any():
        return np.where(np.arange(k) == resting.argmax(), 1.0 / program.a[resting.argmax()], 0.0)
    if k > 2 or k > k_f or not program.simplex.all() or program.linear.any():
        return None
    ends = 1.0 / program.a
    if k == 1:
        return ends
    Q = program.quadratic * np.outer(ends, ends)
    curvature = Q[0, 0] - 2 * Q[0, 1] + Q[1, 1]
    share = 0.5 if curvature <= 0 else min(max((Q[1, 1] - Q[0, 1]) / curvature, 0.0), 1.0)
    return ends * np.array([share, 1.0 - share])


def _unmet(program: Program) -> Array:
    """How far each row is from being met by d = 0, c = 0, (k,)."""
    inequalities = len(program.linear) - program.equalities
    out = np.abs(program.linear)
    out[:inequalities][program.linear[:inequalities] < 0] = 0.0
    return out


def factor(gramian: Array) -> Array:
    """R (m, r) with ``R R^T = K``, from the eigenvalues of K scaled to unit diagonal, so that small gradients count."""
    size = np.sqrt(np.maximum(gramian.diagonal(), 0.0))
    unit = 1.0 / np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(gramian * unit[:, None] * unit)
    kept = values > len(values) * EPSILON * values[-1]
    return np.asarray(size[:, None] * vectors[:, kept] * np.sqrt(values[kept]))


def _typical_length(program: Program) -> float:
    """The length of a direction that meets the constraints, or of the shortest admissible gradient."""
    lengths, k_f = program.lengths, len(program.simplex)
    wanted = float((_unmet(program) / np.where(lengths > 0, lengths, np.inf)).max())
    offered = lengths[:k_f] / np.where(program.a[:k_f] > 0, program.a[:k_f], 1.0)
    return max(wanted, float(offered.min()) if k_f else 0.0) or 1.0


def _interior_point(program: Program, relative_length: float = 1.0) -> Array:
    """piqp on the primal in ``d = length x``, ``c = length^2 y`` with rows of unit norm; slacks where they have a price."""
    gradients = program.rows @ factor(program.gramian)
    (k, r), k_f, k_h = gradients.shape, len(program.simplex), program.equalities
    length = relative_length * _typical_length(program)
    priced = k - k_f + k_h if np.isfinite(program.bound) else 0
    matrix = np.zeros((k, r + 1 + priced))
    matrix[:, :r] = gradients * length
    matrix[:, r] = -length * length * program.a
    norms = np.sqrt((matrix * matrix).sum(axis=1))
    norms[norms == 0] = 1.0
    matrix /= norms[:, None]
    right = -program.linear / norms
    price = norms / (length * length)
    diagonal = np.zeros(r + 1 + priced)
    diagonal[:r] = 1.0
    cost = np.zeros(r + 1 + priced)
    cost[r] = k_f > 0
    lowest = np.full(r + 1 + priced, -np.inf)
    if not k_f:
        diagonal[r] = 1.0
    if priced:
        matrix[k_f:, r + 1 : r + 1 + k - k_f] = -np.eye(k - k_f)
        matrix[k - k_h :, r + 1 + k - k_f :] = np.eye(k_h)
        cost[r + 1 :] = program.bound * np.concatenate([price[k_f:], price[k - k_h :]])
        lowest[r + 1 :] = 0.0
    solver = piqp.DenseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_rel = SOLVER_TOLERANCE
    settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = SOLVER_TOLERANCE
    inequalities = k - k_h
    solver.setup(
        np.diag(diagonal),
        cost,
        np.asfortranarray(matrix[inequalities:]) if k_h else None,
        right[inequalities:] if k_h else None,
        np.asfortranarray(matrix[:inequalities]) if inequalities else None,
        None,
        right[:inequalities] if inequalities else None,
        lowest if priced else None,
    )
    solver.solve()
    result = solver.result
    lam = np.concatenate([result.z_u, result.y]) / price
    return program.feasible(lam) if np.isfinite(lam).all() else program.feasible(np.zeros(k))


def _second_opinion(program: Program) -> Array:
    """Clarabel on the unscaled dual, which fails on other instances than the scaled primal does."""
    k, k_f = len(program.linear), len(program.simplex)
    identity = np.eye(k)
    below, above = np.isfinite(program.lower), np.isfinite(program.upper)
    matrix = np.vstack([program.a[None][: min(k_f, 1)], -identity[below], identity[above]])
    sides = np.concatenate([np.ones(min(k_f, 1)), -program.lower[below], program.upper[above]])
    cones = [clarabel.ZeroConeT(min(k_f, 1)), clarabel.NonnegativeConeT(int(below.sum() + above.sum()))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = SOLVER_TOLERANCE
    quadratic, constraints = sparse.csc_matrix(np.triu(program.quadratic)), sparse.csc_matrix(matrix)
    solver = clarabel.DefaultSolver(quadratic, -program.linear, constraints, sides, cones, settings)
    lam = np.asarray(solver.solve().x, dtype=np.float64)
    return program.feasible(lam) if np.isfinite(lam).all() else program.feasible(np.zeros(k))


def _active_set(program: Program, lam: Array) -> Array:
    """A primal active-set descent from ``lam``, in coordinates where every row has unit length.

    Each round solves the equations on the free coordinates, walks there until a bound stops it, and at a stationary
    point frees the coordinate whose slack has the wrong sign. The objective never rises.
    """
    unit = 1.0 / np.where(program.lengths > 0, program.lengths, 1.0)
    Q, q, a = program.quadratic * unit[:, None] * unit, program.linear * unit, program.a * unit
    lower, upper, mu = program.lower / unit, program.upper / unit, lam / unit
    slack = program.slack(lam) * unit
    noise = EPSILON * len(q) * float(np.abs(mu).max())
    at_upper = (upper - mu) < np.maximum(slack, noise)
    at_lower = ((mu - lower) < np.maximum(-slack, noise)) & ~at_upper
    best, best_residual = lam, program.residual(lam)
    for _ in range(4 * len(q) + 20):
        mu = np.where(at_lower, lower, np.where(at_upper, upper, mu))
        step = _to_stationary(Q, q, a, ~(at_lower | at_upper), mu)
        room = np.where(step < 0, lower - mu, upper - mu)
        ratio = np.divide(room, step, out=np.full_like(step, np.inf), where=np.abs(step) > noise)
        blocking = int(ratio.argmin())
        if ratio[blocking] < 1.0:
            mu = mu + max(ratio[blocking], 0.0) * step
            (at_lower if step[blocking] < 0 else at_upper)[blocking] = True
            continue
        mu = mu + step
        candidate = program.feasible(mu * unit)
        residual = program.residual(candidate)
        if residual < best_residual:
            best, best_residual = candidate, residual
        slack = program.slack(mu * unit) * unit
        wrong = np.where(at_lower, slack, np.where(at_upper, -slack, 0.0))
        worst = int(wrong.argmax())
        if best_residual <= ACCEPTED or wrong[worst] <= 0:
            break
        at_lower[worst] = at_upper[worst] = False
    return best


def _to_stationary(Q: Array, q: Array, a: Array, free: Array, mu: Array) -> Array:
    """The shortest step of the free coordinates to a stationary point; least squares, as Q is singular."""
    n = int(free.sum())
    top = float(a[free].max(initial=0.0)) or 1.0
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = Q[np.ix_(free, free)]
    system[:n, n] = system[n, :n] = a[free] / top
    right = np.append((q - Q @ mu)[free], (1.0 - a @ mu) / top if a.any() else 0.0)
    step = np.zeros_like(mu)
    step[free] = np.linalg.lstsq(system, right, rcond=None)[0][:n]
    return step


def is_inconsistent(program: Program) -> bool:
    """Whether no direction at all meets the linearised constraints (then the unbounded dual has no minimum).

    Smallest eta with ``S_i gradF^T d + q_i <= eta`` (inequalities), ``within +-eta`` (equalities), rows scaled to unit
    length, found by linear programming. Rows of the order whose ``a`` is zero must not rise and count as inequalities.
    """
    reach = program.rows @ factor(program.gramian)
    size = np.sqrt((reach * reach).sum(axis=1))
    size[size == 0] = 1.0
    reach, q = reach / size[:, None], program.linear / size
    largest = float(np.abs(q).max(initial=0.0))
    if largest == 0.0:
        return False
    bounded = program.a == 0
    equal = slice(len(q) - program.equalities, len(q))
    rows = np.vstack([reach[bounded], -reach[equal]])
    sides = np.concatenate([-q[bounded], q[equal]]) / largest
    result = linprog(
        np.append(np.zeros(rows.shape[1]), 1.0),
        A_ub=np.hstack([rows, -np.ones((len(rows), 1))]),
        b_ub=sides,
        bounds=[(None, None)] * rows.shape[1] + [(0, None)],
        method="highs",
    )
    return bool(result.status == 0 and result.fun > FAILED)
