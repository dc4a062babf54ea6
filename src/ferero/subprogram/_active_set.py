"""An active-set descent that finishes what an interior point leaves, exactly once the free rows are known."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ferero._arrays import Array
from ferero.subprogram._program import EPSILON, MANY, TINY, Program

__all__ = ["improve"]

Mask: TypeAlias = npt.NDArray[np.bool_]


def improve(program: Program, lam: Array, accepted: float) -> Array:
    """Returns the best multipliers of an active-set descent from ``lam``, with rows of unit length.

    Each round solves the equations on the free coordinates, walks there until a bound stops it, and at a
    stationary point frees the coordinate whose slack has the wrong sign. The objective never rises.

    Args:
        program: The program.
        lam: Multipliers in their domain, (k,).
        accepted: The residual at which to stop.
    """
    unit = 1.0 / np.where(program.lengths > 0, program.lengths, 1.0)
    Q, q, a = program.quadratic * unit[:, None] * unit, program.linear * unit, program.a * unit
    lower, upper, mu = program.lower / unit, program.upper / unit, lam / unit
    noise = EPSILON * len(q) * float(np.abs(mu).max())
    at_lower, at_upper = _at_bounds(program, lam)
    at_upper |= upper - mu < noise
    at_lower = (at_lower | (mu - lower < noise)) & ~at_upper
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
        if best_residual <= accepted or wrong[worst] <= 0:
            break
        at_lower[worst] = at_upper[worst] = False
    return best


def _at_bounds(program: Program, lam: Array) -> tuple[Mask, Mask]:
    """Which multipliers (k,) belong at their lower or upper bound.

    Those that are nearer to it, as a share of the direction or of the domain, than their row is to being met,
    relative to the terms of that row.
    """
    length, slack = max(program.uncancelled(lam), TINY), program.slack(lam)
    share = np.maximum(program.lengths / length, program.a)
    terms = program.lengths * length + np.abs(program.linear) + abs(program.rate(lam)) * program.a
    lack = slack / np.maximum(terms, TINY)
    at_upper = (np.minimum(program.upper - lam, MANY) * share < lack) & (program.upper < np.inf)
    at_lower = (np.minimum(lam - program.lower, MANY) * share < -lack) & (program.lower > -np.inf)
    return at_lower, at_upper


def _to_stationary(Q: Array, q: Array, a: Array, free: Mask, mu: Array) -> Array:
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
