"""Whether constraints can be met at all, judged by linear programs whose certificates are checked.

All questions are put in Farkas' form, over the multipliers y >= 0 of the rows (an equality counts as two).
A system `B F + b <= 0` has no solution exactly when some y has `B^T y = 0` and `b . y > 0`; none with F >= 0
exactly when some y has `B^T y >= 0` and `b . y > 0`; and where it has one, it implies a further row `(r, s)`
exactly when some y has `B^T y = r` and `b . y >= s`. A y that the solver returns is believed only when it
proves this in the constraints' own numbers, so a verdict never rests on a solver's tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from ferero.errors import ContradictionError
from ferero.preference.constraint import Constraint

__all__ = ["check_consistent"]

_Array = npt.NDArray[np.float64]

# Relative to the data in every use; far above rounding, far below anything a person writes.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class _System:
    """Rows `B F + b <= 0` (k, m), (k,), and for each the number of the constraint that it comes from."""

    rows: _Array
    offsets: _Array
    origins: npt.NDArray[np.int64]

    def only(self, keep: Sequence[int]) -> _System:
        mask = np.isin(self.origins, keep)
        return _System(self.rows[mask], self.offsets[mask], self.origins[mask])


def check_consistent(names: Sequence[str], constraints: Sequence[Constraint]) -> tuple[str, ...]:
    """Look for contradictions, redundancies and what no non-negative losses can meet.

    Args:
        names: the objectives (m,).
        constraints: constraints of one row each.

    Returns:
        Sentences for `Preference.notes`.

    Raises:
        ContradictionError: naming a smallest set of constraints that no losses satisfy together.
    """
    notes = [note for c in constraints for note in _check_constant(c)]
    wanted = [c for c in constraints if c.form.terms]
    if not wanted:
        return tuple(notes)
    system = _system(names, wanted)
    if not _is_independent(system, len(wanted)):
        _check_contradiction(system, wanted)
        notes += [
            f"'{wanted[i].text}' is redundant: the other constraints imply it" for i in _redundant(system, wanted)
        ]
    notes += [
        f"no non-negative losses can meet {_listed([wanted[i] for i in unmet])}"
        for unmet in _unmet_by_nonnegative(system)
    ]
    return tuple(notes)


def _check_constant(constraint: Constraint) -> list[str]:
    """Judge a constraint in which no objective is left."""
    form = constraint.form
    if form.terms:
        return []
    slack = _TOLERANCE * (abs(constraint.left.constant) + abs(constraint.right.constant))
    value = abs(form.constant) if constraint.is_equality else form.constant
    if value > slack:
        raise ContradictionError(
            f"constraints: '{constraint.text}' contains no objective and never holds; remove it or correct it"
        )
    return [f"'{constraint.text}' contains no objective and always holds"]


def _system(names: Sequence[str], constraints: Sequence[Constraint]) -> _System:
    """All rows as inequalities, an equality as two, each of unit length."""
    rows = np.array([c.form.row(names) for c in constraints], dtype=np.float64)
    offsets = np.array([c.form.constant for c in constraints], dtype=np.float64)
    largest = np.abs(rows).max(axis=1)  # first, so that squares neither overflow nor vanish
    lengths = np.linalg.norm(rows / largest[:, None], axis=1)
    rows, offsets = rows / largest[:, None] / lengths[:, None], offsets / largest / lengths
    equal = np.flatnonzero([c.is_equality for c in constraints])
    origins = np.concatenate([np.arange(len(constraints)), equal])
    return _System(np.vstack([rows, -rows[equal]]), np.concatenate([offsets, -offsets[equal]]), origins)


def _is_independent(system: _System, count: int) -> bool:
    """Whether the constraints' rows are linearly independent: then none contradicts or implies another."""
    rows = system.rows[:count]
    if count > rows.shape[1]:
        return False
    singular = np.linalg.svd(rows, compute_uv=False)
    return bool(singular[-1] > _TOLERANCE * singular[0])


def _check_contradiction(system: _System, constraints: Sequence[Constraint]) -> None:
    culprits = _refutation(system)
    if culprits is None:
        return
    for i in tuple(culprits):  # deletion filter: what can be left out is not part of the contradiction
        fewer = _refutation(system.only([j for j in culprits if j != i]))
        culprits = culprits if fewer is None else [j for j in culprits if j != i]
    clash = _listed([constraints[i] for i in culprits])
    raise ContradictionError(f"constraints contradict each other: no losses satisfy {clash}; drop or relax one of them")


def _refutation(system: _System, *, nonnegative: bool = False) -> list[int] | None:
    """The constraints of a certificate that nothing (nothing non-negative) satisfies the system, or None."""
    if system.offsets.size == 0 or system.offsets.max() <= 0:
        return None  # F = 0 satisfies it
    scale = _scales(system)
    y = _multipliers(system, scale, nonnegative)
    if y is None or not _refutes(system, y, nonnegative):
        return None
    support = y * scale > _TOLERANCE * (y * scale).max()
    return sorted(set(system.origins[support].tolist()))


def _scales(system: _System) -> _Array:
    """The size of the losses that each row (k,) speaks of: the largest offset among rows linked by losses.

    Losses that no row links may have any units, so an offset of 1e9 for one does not hide 1e-3 for another.
    """
    touches = system.rows != 0
    _, group = scipy.sparse.csgraph.connected_components(
        scipy.sparse.csr_array(touches.astype(np.float64) @ touches.T), directed=False
    )
    largest = np.zeros(group.max() + 1)
    np.maximum.at(largest, group, np.abs(system.offsets))
    return np.where(largest > 0, largest, 1.0)[group]


def _multipliers(system: _System, scale: _Array, nonnegative: bool) -> _Array | None:
    """Maximise `b . y` over `B^T y = 0` (`>= 0`), y >= 0, `sum(scale y) <= 1`; y (k,) or None for y = 0.

    The program's variables are `scale y`. Linked rows share a scale, so `B^T y` needs none.
    """
    budget = np.ones((1, scale.size))
    limit = np.ones(1)
    columns = system.rows.T
    zeros = np.zeros(len(columns))
    if nonnegative:
        z = _maximize(system.offsets / scale, np.vstack([-columns, budget]), np.append(zeros, limit))
    else:
        z = _maximize(system.offsets / scale, budget, limit, columns, zeros)
    return None if z is None or z @ (system.offsets / scale) <= _TOLERANCE else z / scale


def _maximize(
    objective: _Array,
    A_ub: _Array | None = None,
    b_ub: _Array | None = None,
    A_eq: _Array | None = None,
    b_eq: _Array | None = None,
) -> _Array | None:
    """The x >= 0 with the largest `objective . x` under linprog's constraints; None if there is none."""
    found = scipy.optimize.linprog(
        -objective,
        A_ub=A_ub,
        b_ub=b_ub,
        A_eq=A_eq,
        b_eq=b_eq,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return np.asarray(found.x, dtype=np.float64) if found.status == 0 else None


def _refutes(system: _System, y: _Array, nonnegative: bool) -> bool:
    """Whether `y . (B F + b)` is positive for all F (all F >= 0), relative to the size of its terms."""
    slack = _TOLERANCE * (y @ np.abs(system.rows))
    combined = y @ system.rows
    vanishes = combined >= -slack if nonnegative else np.abs(combined) <= slack
    return bool(vanishes.all() and y @ system.offsets > _TOLERANCE * (y @ np.abs(system.offsets)))


def _redundant(system: _System, constraints: Sequence[Constraint]) -> list[int]:
    """Constraints implied by the others; of two that imply each other the later one.

    One with a margin is never counted: the others need not imply it once their noise is added.
    """
    kept = list(range(len(constraints)))
    for i in reversed([i for i, constraint in enumerate(constraints) if constraint.margin == 0]):
        others = system.only([j for j in kept if j != i])
        this = system.only([i])
        if all(_implies(others, row, offset) for row, offset in zip(this.rows, this.offsets, strict=True)):
            kept.remove(i)
    return [i for i in range(len(constraints)) if i not in kept]


def _implies(system: _System, row: _Array, offset: float) -> bool:
    """Whether the system implies `row . F + offset <= 0`."""
    if system.offsets.size == 0:
        return False
    y = _maximize(system.offsets / _scales(system), A_eq=system.rows.T, b_eq=row)
    if y is None:
        return False
    gap = np.abs(y @ system.rows - row) - _TOLERANCE * (y @ np.abs(system.rows) + np.abs(row))
    reach = y @ system.offsets + _TOLERANCE * (y @ np.abs(system.offsets) + abs(offset))
    return bool((gap <= 0).all() and reach >= offset)


def _unmet_by_nonnegative(system: _System) -> list[list[int]]:
    """Disjoint sets of constraints that no F >= 0 satisfies together."""
    unmet: list[list[int]] = []
    remaining = sorted(set(system.origins.tolist()))
    while (culprits := _refutation(system.only(remaining), nonnegative=True)) is not None:
        unmet.append(culprits)
        remaining = [i for i in remaining if i not in culprits]
    return unmet


def _listed(constraints: Sequence[Constraint]) -> str:
    quoted = [f"'{c.text}'" for c in constraints]
    if len(quoted) == 1:
        return quoted[0]
    start = "both " if len(quoted) == 2 else "all of "
    return start + ", ".join(quoted[:-1]) + f" and {quoted[-1]}"
