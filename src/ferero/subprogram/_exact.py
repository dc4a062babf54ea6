"""The exact solver: an interior point on scaled data, finished by an active set, judged by our own residual.

The gramian of ``[A; B_g; B_h]`` is singular by construction and gradients may differ by twelve orders of
magnitude, so a solver's own status is ignored. Scaling: constraint rows to unit length, one common factor
for the order's rows (equilibrating those makes their multipliers span 1e12), sum and linear term jointly.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from ferero._arrays import Array
from ferero.subprogram._active_set import ACCEPTED, descend_from, settle_from
from ferero.subprogram._consistency import FAILED
from ferero.subprogram._gramian import factor
from ferero.subprogram._program import Program

__all__ = ["Answer", "lowest_share", "solve_exact"]

SOLVER_TOLERANCE = 1e-12
FAR = 1e20  # sides of rows of unit norm beyond which piqp drops the row, and prints that
OTHER_LENGTHS = (1e3, 1e-3)  # scales to try where the typical length failed


class Answer(NamedTuple):
    """Multipliers with their residual, and the solver that found them."""

    multipliers: Array
    residual: float
    solver: Literal["closed form", "piqp", "active set", "clarabel"]


def solve_exact(program: Program, guess: Array | None = None) -> Answer:
    """The best multipliers found; the caller judges ``residual``.

    Where a guess leads to them by a few solves, that is all. Otherwise a bound is first left out: where the
    constraints can be met at less than its price it does not matter, and the program without slacks is the better
    conditioned one. Where it does matter, the multipliers that end at it are fixed there and the others solved for
    anew, for the same reason.

    Args:
        program: The program.
        guess: Multipliers (k,) of a program like this one, whose bounds are tried first.
    """
    closed = _closed_form(program)
    if closed is not None and (residual := program.residual(closed)) <= ACCEPTED:
        return Answer(closed, residual, "closed form")
    if closed is None and guess is not None and program.lengths.all():
        settled = settle_from(program, guess)
        if settled is not None and (residual := program.residual(settled)) <= ACCEPTED:
            return Answer(settled, residual, "active set")
    if math.isinf(program.bound) or len(program.linear) == len(program.simplex):
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
    lam = _interior_point(program)
    best = Answer(lam, program.residual(lam), "piqp")
    if best.residual > ACCEPTED:
        best = _better(best, _finished(program, lam, "active set"))
    if best.residual > ACCEPTED:
        lam = _at_best_corner(program, best.multipliers)
        best = _better(best, Answer(lam, program.residual(lam), "active set"))
    if best.residual > ACCEPTED and last_resort:
        best = _better(best, _finished(program, _second_opinion(program), "clarabel"))
        for length in OTHER_LENGTHS:
            if best.residual > ACCEPTED:
                best = _better(best, _finished(program, _interior_point(program, length), "active set"))
    return best


def _at_best_corner(program: Program, lam: Array) -> Array:
    """``lam`` with the order's part at the corner whose row is met worst.

    Where the constraints alone fix the direction, their multipliers may be so large that the order's are lost beside
    them; what is left to choose is the row that c belongs to.
    """
    k_f = len(program.simplex)
    if not k_f:
        return lam
    left = (program.linear - program.quadratic @ lam)[:k_f]
    worst = int(
        np.where(program.simplex > 0, left / np.where(program.simplex > 0, program.simplex, 1.0), -np.inf).argmax()
    )
    corner = lam.copy()
    corner[:k_f] = 0.0
    corner[worst] = 1.0 / program.a[worst]
    return corner


def _finished(program: Program, lam: Array, solver: Literal["active set", "clarabel"]) -> Answer:
    lam = descend_from(program, lam)
    return Answer(lam, program.residual(lam), solver)


def _better(first: Answer, second: Answer) -> Answer:
    return second if second.residual < first.residual else first


def _closed_form(program: Program) -> Array | None:
    """Multipliers of the simple cases: a row at rest, or few enough rows to write the minimum down."""
    k, k_f = len(program.linear), len(program.simplex)
    if not program.lengths.all():
        resting = (program.lengths[:k_f] == 0) & (program.simplex > 0) & (program.linear[:k_f] == 0)
        if resting.any() and not program.unmet.any():
            lam = np.zeros(k)
            lam[resting.argmax()] = 1.0 / program.a[resting.argmax()]
            return lam
        return _without_gradients(program) if not program.lengths.any() else None
    is_small = 1 <= k_f <= 2 and program.equalities <= 1 and k - k_f <= 3
    return _few_rows(program) if is_small and program.simplex.all() else None


def _without_gradients(program: Program) -> Array | None:
    """Where nothing can move, ``q.lam`` alone decides: the worst row of the order, and the price of what is unmet."""
    k_f, unmet = len(program.simplex), program.unmet.copy()
    unmet[:k_f] = 0.0
    if unmet.any() and math.isinf(program.bound):
        return None
    lam = np.where(unmet > 0, np.sign(program.linear) * (program.bound if unmet.any() else 0.0), 0.0)
    if k_f:
        heights = np.full(k_f, -np.inf)
        np.divide(program.linear[:k_f], program.simplex, out=heights, where=program.simplex > 0)
        lam[heights.argmax()] = 1.0 / program.a[heights.argmax()]
    return lam


def _few_rows(program: Program) -> Array | None:
    """At most two rows of the order with at most one active constraint, tried in turn; None if more are.

    Plain numbers: for so few of them arrays cost more than the arithmetic.
    """
    k, k_f = len(program.linear), len(program.simplex)
    Q, q, a = program.quadratic.tolist(), program.linear.tolist(), program.simplex.tolist()
    ends = program.total / a[0], program.total / a[-1]
    inequalities = range(k_f, k - program.equalities)
    for active in [k - 1] if program.equalities else [None, *inequalities]:
        lam = _on_segment(Q, q, ends, k_f - 1, active, program.bound)
        others = [i for i in inequalities if i != active]
        is_met = all(q[i] <= sum(x * y for x, y in zip(Q[i], lam, strict=True)) for i in others)
        if is_met and (active not in inequalities or lam[active] >= 0):
            return np.array(lam)
    return None


def _on_segment(
    Q: list[list[float]],
    q: list[float],
    ends: tuple[float, float],
    last: int,
    active: int | None,
    bound: float,
) -> list[float]:
    """A parabola's lowest point between the corners of rows 0 and ``last``, with one active row or none.

    The active row's multiplier ``(q_h - Q_hf.lam_f) / Q_hh`` is put into the objective first. If it comes out
    beyond its bound it belongs there, by convexity.
    """
    shape = ends[0] * ends[0] * Q[0][0], ends[0] * ends[1] * Q[0][last], ends[1] * ends[1] * Q[last][last]
    gain = ends[0] * q[0] - ends[1] * q[last]
    lam = [0.0] * len(q)
    if active is None:
        share = lowest_share(*shape, gain)
    else:
        stiffness, aim = Q[active][active], q[active] / Q[active][active]
        pull, other = ends[0] * Q[0][active], ends[1] * Q[last][active]
        share = lowest_share(
            shape[0] - pull * pull / stiffness,
            shape[1] - pull * other / stiffness,
            shape[2] - other * other / stiffness,
            gain - (pull - other) * aim,
        )
        lam[active] = aim - (share * pull + (1.0 - share) * other) / stiffness
        if abs(lam[active]) > bound:
            lam[active] = math.copysign(bound, lam[active])
            share = lowest_share(*shape, gain - (pull - other) * lam[active])
    lam[0] += share * ends[0]
    lam[last] += (1.0 - share) * ends[1]
    return lam


def lowest_share(first: float, cross: float, second: float, gain: float) -> float:
    """The s in [0, 1] with the lowest ``(first s^2 + 2 cross s t + second t^2) / 2 - gain s``, t = 1 - s."""
    curvature, slope = first - 2.0 * cross + second, second - cross + gain
    if curvature <= 0:
        return 0.5 if slope == 0 else float(slope > 0)
    return min(max(slope / curvature, 0.0), 1.0)


def _typical_length(program: Program) -> float:
    """The length of a direction that meets the constraints, or of the shortest admissible gradient."""
    lengths = program.lengths
    needed = program.unmet / (lengths if lengths.all() else np.where(lengths > 0, lengths, np.inf))
    ends = program.ends if program.simplex.all() else program.ends[program.simplex > 0]
    return max(float(needed.max()), float(ends.min(initial=np.inf)) if len(ends) else 0.0) or 1.0


def _interior_point(program: Program, relative_length: float = 1.0) -> Array:
    """Piqp on the primal in ``d = length x``, ``c = length^2 y``: rows of unit norm, slacks where priced."""
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
    right = np.maximum(np.minimum(-program.linear / norms, FAR), -FAR)
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


def _piqp(quadratic: Array, cost: Array, matrix: Array, right: Array, equalities: int, lowest: Array | None) -> Array:
    """Multipliers (k,) of ``matrix x <= right``, the last rows equalities, whatever status piqp reports."""
    inequalities = len(right) - equalities
    import piqp

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
    import clarabel
    from scipy import sparse

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
