"""The exact solver: an interior point on scaled data, mended by an active-set solve, judged by our own residual.

The gramian of ``[A; B_g; B_h]`` is singular by construction and gradients may differ by twelve orders of magnitude,
so no solver's own status is believed. Scaling: constraint rows to unit length, one common factor for the order's rows
(equilibrating those makes their multipliers span 1e12), then sum and linear term jointly.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple

import clarabel
import numpy as np
import numpy.typing as npt
import piqp
from scipy import sparse
from scipy.linalg.lapack import dpstrf
from scipy.optimize import linprog

from ferero.subprogram.program import EPSILON, Array, Program

__all__ = ["Answer", "factor", "is_doubtful", "is_inconsistent", "solve_exact"]

ACCEPTED = 1e-10  # relative residual at which an answer is taken without a second opinion
FAILED = 1e-6  # relative residual above which the linearised constraints are suspected to be inconsistent
SOLVER_TOLERANCE = 1e-12
PARALLEL = 2**12 * EPSILON  # the squared sine, and the relative size, that rounding can produce
WITNESSES = 4  # cheap attempts to meet all constraints before a linear program is asked
TINY = float(np.finfo(np.float64).tiny)
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
    """Multipliers of the simple cases: a row at rest, or few enough rows to write the minimum down."""
    k, k_f = len(program.linear), len(program.simplex)
    if not program.lengths[:k_f].all():
        resting = (program.lengths[:k_f] == 0) & (program.simplex > 0) & (program.linear[:k_f] == 0)
        if resting.any() and not _unmet(program).any():
            return np.where(np.arange(k) == resting.argmax(), 1.0 / program.a[resting.argmax()], 0.0)
    is_small = 1 <= k_f <= 2 and k - k_f == program.equalities <= 1
    return _on_segment(program) if is_small and program.lengths[k_f:].all() and program.simplex.all() else None


def _on_segment(program: Program) -> Array:
    """At most two rows of the order and one equality: a parabola's lowest point between two corners.

    The equality's multiplier ``(q_h - Q_hf.lam_f) / Q_hh`` is put into the objective first.
    """
    k, last = len(program.linear), len(program.simplex) - 1
    (Q, q), total = (program.quadratic.tolist(), program.linear.tolist()), float(program.total)
    ends = total / float(program.simplex[0]), total / float(program.simplex[last])
    start = ends[0] * ends[0] * Q[0][0], ends[0] * q[0]
    cross = ends[0] * ends[1] * Q[0][last]
    stop = ends[1] * ends[1] * Q[last][last], ends[1] * q[last]
    pulls = (0.0, 0.0)
    if program.equalities:
        pulls = ends[0] * Q[0][-1], ends[1] * Q[last][-1]
        start = start[0] - pulls[0] * pulls[0] / Q[-1][-1], start[1] - pulls[0] * q[-1] / Q[-1][-1]
        cross -= pulls[0] * pulls[1] / Q[-1][-1]
        stop = stop[0] - pulls[1] * pulls[1] / Q[-1][-1], stop[1] - pulls[1] * q[-1] / Q[-1][-1]
    curvature = start[0] - 2.0 * cross + stop[0]
    slope = stop[0] - cross + start[1] - stop[1]
    share = min(max(slope / curvature, 0.0), 1.0) if curvature > 0 else 0.5 + 0.5 * np.sign(slope)
    lam = np.zeros(k)
    lam[0] = share * ends[0]
    lam[last] += (1.0 - share) * ends[1]
    if program.equalities:
        lam[-1] = (q[-1] - share * pulls[0] - (1.0 - share) * pulls[1]) / Q[-1][-1]
    return lam


def _unmet(program: Program) -> Array:
    """How far each row is from being met by d = 0, c = 0, (k,)."""
    inequalities = len(program.linear) - program.equalities
    out = np.maximum(program.linear, 0.0)
    out[inequalities:] = np.abs(program.linear[inequalities:])
    return out


def factor(gramian: Array, tolerance: float | None = None) -> Array:
    """R (m, r) with ``R R^T = K``, by pivoted Cholesky of K scaled to unit diagonal, so that small gradients count.

    Args:
        gramian: K, (m, m).
        tolerance: The squared sine below which a gradient lies in the span of the others; None for m roundings.
    """
    m = len(gramian)
    size = np.sqrt(np.maximum(gramian.diagonal(), 0.0))
    unit = size if size.all() else np.where(size > 0, size, 1.0)
    lower, pivots, rank, _ = dpstrf(gramian / (unit[:, None] * unit), tolerance or m * EPSILON, lower=1)
    root = np.empty((m, rank))
    root[pivots - 1] = (lower * _lower_triangle(m))[:, :rank]
    return np.asarray(size[:, None] * root)


@lru_cache(maxsize=64)
def _lower_triangle(m: int) -> Array:
    return np.tri(m)


def _typical_length(program: Program) -> float:
    """The length of a direction that meets the constraints, or of the shortest admissible gradient."""
    k_f, lengths = len(program.simplex), program.lengths
    wanted = _unmet(program) / (lengths if lengths.all() else np.where(lengths > 0, lengths, np.inf))
    ends = program.ends if program.simplex.all() else np.where(program.simplex > 0, program.ends, lengths[:k_f])
    return max(float(wanted.max()), float(ends.min()) if k_f else 0.0) or 1.0


def _interior_point(program: Program, relative_length: float = 1.0) -> Array:
    """Piqp on the primal in ``d = length x``, ``c = length^2 y`` with rows of unit norm, slacks where priced."""
    gradients = program.rows @ factor(program.gramian)
    (k, r), k_f, k_h = gradients.shape, len(program.simplex), program.equalities
    length = relative_length * _typical_length(program)
    priced = k - k_f + k_h if np.isfinite(program.bound) else 0
    matrix = np.zeros((k, r + 1 + priced))
    matrix[:, :r] = gradients * length
    matrix[:, r] = program.a * (-length * length)
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    if not norms.all():
        norms[norms == 0] = 1.0
    matrix /= norms[:, None]
    right = -program.linear / norms
    price = norms / (length * length)
    quadratic = np.zeros((r + 1 + priced, r + 1 + priced))
    quadratic.flat[: r * (r + 2 + priced) : r + 2 + priced] = 1.0
    cost = np.zeros(r + 1 + priced)
    if k_f:
        cost[r] = 1.0
    else:
        quadratic[r, r] = 1.0
    lowest = None
    if priced:
        matrix[k_f:, r + 1 : r + 1 + k - k_f] = -np.eye(k - k_f)
        matrix[k - k_h :, r + 1 + k - k_f :] = np.eye(k_h)
        cost[r + 1 :] = program.bound * np.concatenate([price[k_f:], price[k - k_h :]])
        lowest = np.full(r + 1 + priced, -np.inf)
        lowest[r + 1 :] = 0.0
    lam = _piqp(quadratic, cost, matrix, right, k_h, lowest) / price
    return program.feasible(lam if math.isfinite(lam.sum()) else np.zeros(k))


def _piqp(
    quadratic: Array, cost: Array, matrix: Array, right: Array, equalities: int, lowest: Array | None
) -> Array:
    """Multipliers (k,) of ``matrix x <= right``, the last rows equalities; the last iterate, whatever its status."""
    inequalities = len(right) - equalities
    solver = piqp.DenseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_rel = SOLVER_TOLERANCE
    settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = SOLVER_TOLERANCE
    solver.setup(
        quadratic,
        cost,
        np.asfortranarray(matrix[inequalities:]) if equalities else None,
        right[inequalities:] if equalities else None,
        np.asfortranarray(matrix[:inequalities]) if inequalities else None,
        None,
        right[:inequalities] if inequalities else None,
        lowest,
    )
    solver.solve()
    return np.concatenate([solver.result.z_u, solver.result.y])


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
    return program.feasible(lam if math.isfinite(lam.sum()) else np.zeros(k))


def _active_set(program: Program, lam: Array) -> Array:
    """A primal active-set descent from ``lam``, in coordinates where every row has unit length.

    Each round solves the equations on the free coordinates, walks there until a bound stops it, and at a stationary
    point frees the coordinate whose slack has the wrong sign. The objective never rises.
    """
    unit = 1.0 / np.where(program.lengths > 0, program.lengths, 1.0)
    Q, q, a = program.quadratic * unit[:, None] * unit, program.linear * unit, program.a * unit
    lower, upper, mu = program.lower / unit, program.upper / unit, lam / unit
    noise = EPSILON * len(q) * float(np.abs(mu).max())
    length, slack = program.uncancelled(lam), program.slack(lam)
    share = np.maximum(1.0 / (length * unit), program.a)
    lack = slack / np.maximum(program.lengths * length + np.abs(program.linear) + abs(program.rate(lam)) * program.a, TINY)
    at_upper = ((program.upper - lam) * share < lack) | (upper - mu < noise)
    at_lower = (((lam - program.lower) * share < -lack) | (mu - lower < noise)) & ~at_upper
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


def is_doubtful(program: Program, answer: Answer) -> bool:
    """Whether an answer without bound leaves it open that the linearised constraints cannot be met.

    Multipliers that run away make the direction a small difference of large parts, and a residual relative to
    those parts falls with them. So an answer is beyond doubt only where little cancelled, no constrained row
    vanishes and each is met relative to its own ``|q_i|``. Doubt costs time, not correctness.
    """
    if answer.residual > FAILED:
        return True
    needed = program.a == 0
    if not _unmet(program)[needed].any():
        return False
    q = np.abs(program.linear)
    uncancelled = np.abs(program.rows) @ np.sqrt(np.maximum(program.gramian.diagonal(), 0.0))
    if ((program.lengths <= FAILED * uncancelled) & (q > 0) & needed).any():
        return True
    if np.count_nonzero(needed) == 1:
        return False
    lam = answer.multipliers
    parts = float(np.abs(lam) @ program.lengths)
    if float(lam @ program.quadratic @ lam) <= (FAILED * parts) ** 2:
        return True
    slack, first = program.slack(lam), len(lam) - program.equalities
    slack[first:] = np.abs(slack[first:])
    allowed = FAILED * q if q.all() else np.where(q > 0, FAILED * q, EPSILON * parts * program.lengths)
    return bool(((slack > allowed) & needed).any())


def is_inconsistent(program: Program) -> bool:
    """Whether no direction at all meets the linearised constraints (the unbounded dual then has no minimum).

    With rows of unit length a direction must have ``S_i gradF^T d + q_i <= eta`` (within ``+-eta`` for
    equalities), where eta is a millionth of the largest ``|q_i|``. Rows of the order whose ``a`` is zero must
    not rise and count as inequalities. Gradients are taken as parallel, and rows as vanishing, where rounding
    can make them so.
    """
    reach = program.rows @ factor(program.gramian, PARALLEL)
    uncancelled = np.abs(program.rows) @ np.sqrt(np.maximum(program.gramian.diagonal(), 0.0))
    size = np.sqrt((reach * reach).sum(axis=1))
    vanishing = size <= PARALLEL * uncancelled
    reach[vanishing] = 0.0
    size = np.where(vanishing, uncancelled, size)
    if (_unmet(program)[(program.a == 0) & (size == 0)] > 0).any():
        return True
    size[size == 0] = 1.0
    is_equality = np.arange(len(size)) >= len(size) - program.equalities
    kept = program.a == 0
    needs, q, is_equality = (reach / size[:, None])[kept], (program.linear / size)[kept], is_equality[kept]
    largest = float(np.abs(q).max(initial=0.0))
    return largest > 0 and not _is_met_somewhere(needs, q / largest, is_equality)


def _is_met_somewhere(rows: Array, q: Array, is_equality: npt.NDArray[np.bool_]) -> bool:
    """Whether ``rows d + q <= eta`` (``= 0`` within eta) for some d and the tolerated eta.

    The shortest d that meets the rows violated so far with equality is tried a few times; if none meets all of
    them, linear programming finds the smallest eta.
    """
    active = is_equality | (q > 0)
    for _ in range(WITNESSES):
        d = np.linalg.lstsq(rows[active], -q[active], rcond=FAILED)[0]
        left = rows @ d + q
        left[is_equality] = np.abs(left[is_equality])
        if (left <= FAILED).all():
            return True
        active = active | (left > 0)
    both = np.vstack([rows, -rows[is_equality]])
    result = linprog(
        np.append(np.zeros(rows.shape[1]), 1.0),
        A_ub=np.hstack([both, -np.ones((len(both), 1))]),
        b_ub=np.concatenate([-q, q[is_equality]]),
        bounds=[(None, None)] * rows.shape[1] + [(0, None)],
        method="highs",
    )
    return bool(result.status != 0 or result.fun <= FAILED)
