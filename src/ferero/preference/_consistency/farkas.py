"""Linear programs whose certificates are checked: that a system has no solution, or implies a further row.

All questions are put in Farkas' form, over the multipliers y >= 0 of the rows (an equality counts as two).
A system `B F + b <= 0` has no solution exactly when some y has `B^T y = 0` and `b . y > 0`; none with F >= 0
exactly when some y has `B^T y >= 0` and `b . y > 0`; and where it has one, it implies a further row `(r, s)`
exactly when some y has `B^T y = r` and `b . y >= s`. A y that the solver returns is believed only when it
proves this in the constraints' own numbers, so a verdict never rests on a solver's tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from ferero.preference._consistency.parts import TOLERANCE, Clash
from ferero.preference._consistency.system import Array, System

__all__ = ["contradiction", "maximize", "redundant", "unmet"]


def contradiction(system: System) -> Clash | None:
    """A smallest set of constraints that no losses satisfy together, or None."""
    z = _certificate(system)
    if z is None:
        return None
    size, culprits = _clash(system, z)
    if not _is_smallest(system, z):
        for i in tuple(culprits):  # deletion filter: what can be left out is not part of the contradiction
            fewer = [j for j in culprits if j != i]
            culprits = culprits if _certificate(system.only(fewer)) is None else fewer
    return Clash(size, culprits)


def redundant(system: System, candidates: Sequence[int]) -> list[int]:
    """The candidates that other constraints imply; of two that imply each other the later one."""
    kept = set(system.origins.tolist())
    for i in sorted(candidates, reverse=True):
        others, this = system.only(kept - {i}), system.only([i])
        if all(_implies(others, row, offset) for row, offset in zip(this.rows.toarray(), this.offsets, strict=True)):
            kept.remove(i)
    return [i for i in candidates if i not in kept]


def unmet(system: System) -> list[Clash]:
    """Disjoint sets of constraints that no F >= 0 satisfies together."""
    found: list[Clash] = []
    remaining = set(system.origins.tolist())
    while (z := _certificate(rest := system.only(remaining), nonnegative=True)) is not None:
        found.append(_clash(rest, z))
        remaining -= set(found[-1].constraints)
    return found


def maximize(objective: Array, **constraints: Any) -> Array | None:
    """The x with the largest `objective . x` under linprog's constraints, x >= 0 without `bounds`; None if none."""
    found = scipy.optimize.linprog(
        -objective,
        **constraints,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return np.asarray(found.x, dtype=np.float64) if found.status == 0 else None


def _implies(system: System, row: Array, offset: float) -> bool:
    """Whether the system implies `row . F + offset <= 0`."""
    if system.offsets.size == 0:
        return False
    y = maximize(system.offsets / system.scales(), A_eq=system.rows.T, b_eq=row)
    if y is None:
        return False
    gap = np.abs(y @ system.rows - row) - TOLERANCE * (y @ abs(system.rows) + np.abs(row))
    reach = y @ system.offsets + TOLERANCE * (y @ np.abs(system.offsets) + abs(offset))
    return bool((gap <= 0).all() and reach >= offset)


def _certificate(system: System, *, nonnegative: bool = False) -> Array | None:
    """Multipliers `scale y` (k,) which prove that nothing (nothing non-negative) satisfies the system, or None."""
    if system.offsets.size == 0 or system.offsets.max() <= 0:
        return None  # F = 0 satisfies it
    scale = system.scales()
    z = _multipliers(system, scale, nonnegative)
    return z if z is not None and _refutes(system, z / scale, nonnegative) else None


def _clash(system: System, z: Array) -> Clash:
    """The constraints that a certificate is made of."""
    support = z > TOLERANCE * z.max()
    return Clash(float(z @ (system.offsets / system.scales())), sorted(set(system.origins[support].tolist())))


def _is_smallest(system: System, z: Array) -> bool:
    """Whether the rows of a contradiction depend on each other in one way only, so that none can be left out."""
    _, first, group = np.unique(system.origins, return_index=True, return_inverse=True)
    sides = np.full(len(z), -1.0)  # the second row of an equality is minus the first
    sides[first] = 1.0
    total = np.abs(np.bincount(group, sides * z))
    rows = system.rows[first[total > TOLERANCE * total.max()]]
    k, m = rows.shape
    if not 1 < k <= m + 1 or k < len(_clash(system, z).constraints):
        return False
    singular = np.linalg.svd(rows.toarray(), compute_uv=False)
    return bool(singular[k - 2] > TOLERANCE * singular[0])


def _multipliers(system: System, scale: Array, nonnegative: bool) -> Array | None:
    """`z = scale y` (k,) with the largest `b . y` over `B^T y = 0` (`>= 0`), y >= 0, `sum(z) <= 1`; None for 0.

    Linked rows share a scale, so `B^T y` needs none.
    """
    offsets = system.offsets / scale
    budget = scipy.sparse.csr_array(np.ones((1, scale.size)))
    zeros = np.zeros(system.rows.shape[1])
    if nonnegative:
        limits = scipy.sparse.vstack([-system.rows.T, budget], format="csr")
        z = maximize(offsets, A_ub=limits, b_ub=np.append(zeros, 1.0))
    else:
        z = maximize(offsets, A_ub=budget, b_ub=np.ones(1), A_eq=system.rows.T, b_eq=zeros)
    return None if z is None or z @ offsets <= TOLERANCE else z


def _refutes(system: System, y: Array, nonnegative: bool) -> bool:
    """Whether `y . (B F + b)` is positive for all F (all F >= 0), relative to the size of its terms."""
    slack: Array = TOLERANCE * np.asarray(y @ abs(system.rows))
    combined = np.asarray(y @ system.rows)
    vanishes = combined >= -slack if nonnegative else np.abs(combined) <= slack
    return bool(vanishes.all() and y @ system.offsets > TOLERANCE * (y @ np.abs(system.offsets)))
