"""Points that settle a question before a linear program is asked: they meet all constraints, or all but one.

A point with room in every inequality of a part shows that the part is no contradiction. From there one looks in
several directions, without leaving the equalities: the inequality that is reached first, clearly before the next one,
is implied by none of the others, since a little beyond it nothing else is violated. Nor do inequalities with room imply
an equality, so that independent equalities are not redundant either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from ferero.preference._consistency.farkas import maximize
from ferero.preference._consistency.parts import TOLERANCE
from ferero.preference._consistency.system import Array, Matrix, System, is_independent

__all__ = ["find_points", "has_room", "needed"]

_ROOM = 1e-6  # relative to a row's terms: what counts as room, far above the tolerance of verdicts
_EXACT = TOLERANCE / 4  # relative to a row's terms: how well equalities must be met
_PRICE = 1e3  # of leaving the equalities, in units of room; too low a price costs further programs, not verdicts
_LOOKS = ((0, 2), (0, 8), (2, 4))  # steps towards the middle before looking, and the power of nearness that is avoided
_AT_ONCE = 256  # directions looked along together


def find_points(systems: Sequence[System], *, nonnegative: bool) -> list[Array | None]:
    """For each system a point x = F / scale (m,) with room, x >= 0 where asked for; None where none was found.

    One program for all of them, with the room t and the excess u of each:

        max  sum(t) - price sum(u)    with  B_g x + b_g <= -t,  |B_h x + b_h| <= u,  t <= 1,  u >= 0.

    Args:
        systems: parts, of m losses each, that share none.
        nonnegative: whether only losses F >= 0 count.
    """
    if not systems:
        return []
    n, sizes = len(systems), [system.rows.shape[1] for system in systems]
    rows: Matrix = scipy.sparse.block_diag([system.rows for system in systems], format="csr")
    equal = np.concatenate([system.is_equality for system in systems])
    owner = np.repeat(np.arange(n), [len(system.offsets) for system in systems])
    places = (np.arange(len(owner)), np.where(equal, n, 0) + owner)
    slacks = scipy.sparse.csr_array((np.where(equal, -1.0, 1.0), places), shape=(len(owner), 2 * n))
    found = maximize(
        np.concatenate([np.zeros(sum(sizes)), np.ones(n), np.full(n, -_PRICE)]),
        A_ub=scipy.sparse.hstack([rows, slacks], format="csr"),
        b_ub=np.concatenate([-_offsets(system) for system in systems]),
        bounds=[(0 if nonnegative else None, None)] * sum(sizes) + [(None, 1)] * n + [(0, None)] * n,
    )
    if found is None:
        return [None] * n
    points = np.split(np.maximum(found, 0.0) if nonnegative else found, np.cumsum(sizes))[:n]
    return [x if has_room(system, x) else None for system, x in zip(systems, points, strict=True)]


def has_room(system: System, x: Array) -> bool:
    """Whether x = F / scale meets the equalities exactly and the inequalities clearly."""
    offsets = _offsets(system)
    values, terms = system.rows @ x + offsets, abs(system.rows) @ np.abs(x) + np.abs(offsets)
    is_met = np.where(system.is_equality, np.abs(values) <= _EXACT * terms, values < -_ROOM * terms)
    return bool(is_met.all())


def needed(system: System, x: Array) -> set[int]:
    """The constraints that a point x = F / scale with room shows to be implied by no others."""
    equal, offsets = system.is_equality, _offsets(system)
    equalities = system.rows[np.flatnonzero(equal)[: len(system.equalities)]]  # the second rows are their negatives
    rows = _within(equalities, system.rows[~equal])
    slack = -(system.rows @ x + offsets)[~equal]
    size = float(np.linalg.norm(x)) + np.abs(offsets[~equal])
    first: set[int] = set()
    for steps, power in _LOOKS:
        if len(first) == len(slack):
            break
        for _ in range(steps):
            slack, way = _nearer_the_middle(rows, slack)
            size = size + way
        first |= _reached_first(rows, slack, size, _directions(rows, slack, power))
    found = set(system.origins[~equal][sorted(first)].tolist())
    return found | system.equalities if is_independent(equalities) else found


def _within(equalities: Matrix, rows: Matrix) -> Matrix | Array:
    """The rows (k, n) in coordinates in which the equalities stay as they are; dense unless most entries are 0."""
    k, m = rows.shape
    if equalities.shape[0]:
        _, singular, basis = np.linalg.svd(equalities.toarray())
        free = basis[np.count_nonzero(singular > TOLERANCE * singular[0]) :]
        inside: Array = rows @ free.T
        return inside
    return rows.toarray() if 10 * rows.nnz > k * m else rows


def _directions(rows: Matrix | Array, slack: Array, power: int) -> Array:
    """For every row (k, n) the way to it that avoids the others, the more so the nearer they are: `H^-1 row`.

    Of unit length; ways that vanish are left out.
    """
    ends = rows if isinstance(rows, np.ndarray) else rows.toarray()
    ways = np.linalg.solve(_nearness(rows, slack, power), ends.T).T
    lengths = np.linalg.norm(ways, axis=1)
    is_fine = np.isfinite(lengths) & (lengths > 0)
    unit: Array = ways[is_fine] / lengths[is_fine, None]
    return unit


def _nearer_the_middle(rows: Matrix | Array, slack: Array) -> tuple[Array, float]:
    """The slacks (k,) after Newton's step towards the largest `sum(log(slack))`, and the step's length."""
    nearest = slack.min()
    way = -np.linalg.solve(_nearness(rows, slack, 2), np.asarray(rows.T @ (nearest / slack))) * nearest
    steepness = np.asarray(rows @ way)
    step = min(1.0, 0.9 / float((steepness / slack).max(initial=0.9)))
    while step > _ROOM and np.log1p(-step * steepness / slack).sum() < 0:
        step /= 2
    return slack - step * steepness, step * float(np.linalg.norm(way))


def _nearness(rows: Matrix | Array, slack: Array, power: int) -> Array:
    """`H = sum_j w_j row_j row_j^T` (n, n), w_j the smallest slack over the own to a power; never singular."""
    w = (slack.min() / slack) ** power
    H = rows.T @ (scipy.sparse.diags_array(w) @ rows)
    H = H if isinstance(H, np.ndarray) else H.toarray()
    regular: Array = H + np.eye(len(H)) * (1e-12 * H.trace() + np.finfo(np.float64).tiny)
    return regular


def _reached_first(rows: Matrix | Array, slack: Array, size: Array, directions: Array) -> set[int]:
    """Which rows (k, n) are clearly the first to be reached along some direction (d, n), from slacks (k,).

    Args:
        rows: the inequalities.
        slack: how far they are from being violated, (k,).
        size: the largest that their terms can be here, (k,).
        directions: of unit length.
    """
    found: set[int] = set()
    for some in np.split(directions, range(_AT_ONCE, len(directions), _AT_ONCE)):
        steepness, each = np.asarray(rows @ some.T), np.arange(len(some))
        with np.errstate(divide="ignore", over="ignore"):
            distances = np.where(steepness > 0, slack[:, None] / steepness, np.inf)
        first = distances.argmin(axis=0)
        nearest = distances[first, each]
        distances[first, each] = np.inf
        reached = np.isfinite(nearest)
        far = np.where(reached, np.minimum(2 * nearest, (nearest + distances.min(axis=0)) / 2), 0.0)
        beyond = (far - np.where(reached, nearest, 0.0)) * steepness[first, each]
        found |= set(first[beyond > _ROOM * (size[first] + far)].tolist())
    return found


def _offsets(system: System) -> Array:
    """The offsets (k,) in units of the largest of them."""
    largest = float(np.abs(system.offsets).max())
    return system.offsets / (largest if largest > 0 else 1.0)
