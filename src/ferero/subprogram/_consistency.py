"""Whether the linearised constraints can be met at all: where they cannot, the dual is unbounded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from ferero._arrays import Array
from ferero.subprogram._gramian import factor
from ferero.subprogram._program import EPSILON, Program

__all__ = ["is_doubtful", "is_inconsistent"]

FAILED = 1e-6  # what is not met to this, relative to its own size, is not met
PARALLEL = 2**12 * EPSILON  # the squared sine, and the relative size, that rounding can produce
WITNESSES = 4  # cheap attempts to meet all constraints before a linear program is asked


def is_doubtful(program: Program, lam: Array, residual: float) -> bool:
    """Whether multipliers without bound leave it open that the linearised constraints cannot be met.

    Multipliers that run away make the direction a small difference of large parts, and a residual relative to
    those parts falls with them. So they are beyond doubt only where what the residual allows is small beside
    each ``|q_i| / |S_i gradF|`` to be undone, and no such row vanishes. Doubt costs time, not correctness.
    """
    if residual > FAILED:
        return True
    needed = slice(len(program.simplex), None) if program.simplex.all() else program.a == 0
    unmet, lengths = program.unmet[needed], program.lengths[needed]
    if not unmet.any():
        return False
    uncancelled = np.abs(program.rows[needed]) @ np.sqrt(np.maximum(program.gramian.diagonal(), 0.0))
    allowed = max(residual, len(lam) * EPSILON) * program.uncancelled(lam)
    is_certain = (lengths * allowed <= FAILED * unmet) & (lengths > FAILED * uncancelled)
    return not (is_certain | (unmet == 0)).all()


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
    if (program.unmet[(program.a == 0) & (size == 0)] > 0).any():
        return True
    size[size == 0] = 1.0
    is_equality = np.arange(len(size)) >= len(size) - program.equalities
    kept = program.a == 0
    needs, q, is_equality = (reach / size[:, None])[kept], (program.linear / size)[kept], is_equality[kept]
    largest = float(np.abs(q).max(initial=0.0))
    return largest > 0 and not _is_met_somewhere(needs, q / largest, is_equality)


def _is_met_somewhere(rows: Array, q: Array, is_equality: npt.NDArray[np.bool_]) -> bool:
    """Whether ``rows d + q <= eta`` (``= 0`` within eta) for some d and the tolerated eta.

    The shortest d that meets the rows violated so far with equality is tried a few times; if none meets all
    of them, linear programming finds the smallest eta.
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
    result = scipy.optimize.linprog(
        np.append(np.zeros(rows.shape[1]), 1.0),
        A_ub=np.hstack([both, -np.ones((len(both), 1))]),
        b_ub=np.concatenate([-q, q[is_equality]]),
        bounds=[(None, None)] * rows.shape[1] + [(0, None)],
        method="highs",
    )
    return result.status != 0 or float(result.fun or 0.0) <= FAILED
