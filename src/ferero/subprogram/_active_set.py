"""Active sets: which multipliers are at a bound. With a guess that is nearly right a few exact solves are all."""

from __future__ import annotations

import numpy as np

from ferero._arrays import Array, Mask
from ferero.subprogram._lapack import lapack_solver
from ferero.subprogram._program import EPSILON, MANY, TINY, Program

__all__ = ["ACCEPTED", "descend_from", "settle_from"]

ACCEPTED = 1e-10  # relative residual at which an answer is taken without a second opinion
SETTLED = 1e-12  # a slack below this, relative to the terms of its row, has no sign
SETTLING_ROUNDS = 4
NEAR = 1e-8  # of the direction: a guess whose part is below this is at its bound
LOWER, FREE, UPPER = -1, 0, 1


def settle_from(program: Program, guess: Array) -> Array | None:
    """Multipliers by a primal-dual active-set method, None where the sets do not settle or the equations are singular.

    Each round solves for the free multipliers, with rows of unit length and the others at their bounds, fixes those
    that crossed a bound there, and frees those whose slack has the wrong sign.

    Args:
        program: The program, each of whose rows has a gradient.
        guess: Multipliers (k,) of a program like this one, whose bounds are tried first.
    """
    Q, q, a, lengths = program.quadratic, program.linear, program.a, program.lengths
    k_f, lower, upper = len(program.simplex), program.lower.tolist(), program.upper.tolist()
    norms, sizes = lengths.tolist(), np.abs(q).tolist()
    near = NEAR * float(np.abs(guess).dot(lengths))
    states = [
        LOWER if (value - low) * norm <= near else UPPER if (high - value) * norm <= near else FREE
        for value, low, high, norm in zip(guess.tolist(), lower, upper, norms, strict=True)
    ]
    for _ in range(SETTLING_ROUNDS):
        free = [i for i, state in enumerate(states) if state == FREE]
        lam = np.array([(lower[i] if state == LOWER else upper[i]) if state else 0.0 for i, state in enumerate(states)])
        if not free and k_f:  # the order's multipliers must have a sum
            return None
        if free:
            found = _solve_free(Q, q - Q @ lam if lam.any() else q, a, lengths, free)
            if found is None:
                return None
            lam[free] = found
        left = q - Q @ lam
        slack = (left - lam[:k_f].dot(left[:k_f]) * a).tolist()
        length, before = float(np.abs(lam).dot(lengths)), states.copy()
        for i, value in enumerate(lam.tolist()):
            if states[i] == FREE:
                states[i] = LOWER if value < lower[i] else UPPER if value > upper[i] else FREE
            elif states[i] * slack[i] < -SETTLED * (length * norms[i] + sizes[i]):
                states[i] = FREE
        if states == before:
            return program.feasible(lam)
    return None


def _solve_free(Q: Array, right: Array, a: Array, lengths: Array, free: list[int]) -> Array | None:
    """The free multipliers at which ``(Q lam - right + c a)_free = 0`` and ``a.lam = 1``; None if there are none."""
    n, norms = len(free), lengths[free]
    system, sides = np.empty((n + 1, n + 1)), np.empty(n + 1)
    system[:n, :n] = Q[free][:, free] / norms / norms[:, None]
    sides[:n] = right[free] / norms
    border = a[free] / norms
    top = float(border.max())
    if top > 0:
        system[:n, n] = system[n, :n] = border / top
        system[n, n], sides[n] = 0.0, 1.0 / top
    elif a.any():
        return None
    else:
        system[:n, n] = system[n, :n] = sides[n] = 0.0
        system[n, n] = 1.0
    _, _, found, failed = lapack_solver()(system, sides, 1, 1)
    return None if failed else found[:n] / norms


def descend_from(program: Program, lam: Array) -> Array:
    """Returns the best multipliers of an active-set descent from ``lam``, with rows of unit length.

    Each round solves the equations on the free coordinates, walks there until a bound stops it, and at a
    stationary point frees the coordinate whose slack has the wrong sign. The objective never rises.

    Args:
        program: The program.
        lam: Multipliers in their domain, (k,).
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
        if best_residual <= ACCEPTED or wrong[worst] <= 0:
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
