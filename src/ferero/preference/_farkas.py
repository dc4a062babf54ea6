"""Systems of linear constraints ``B F + b <= 0``: what they contradict, imply and exclude, each verdict with a proof.

Linear programs in Farkas' form settle a question over the multipliers y >= 0 of the rows (an equality counts as two). A
system has no solution exactly when some y has ``B^T y = 0`` and ``b . y > 0``; none with F >= 0 exactly when some y has
``B^T y >= 0`` and ``b . y > 0``; and where it has one, it implies a further row ``(r, s)`` exactly when some y has
``B^T y = r`` and ``b . y >= s``. A y from the solver counts only if it proves this in the constraints' own numbers, so
no verdict rests on a solver's tolerance.

A witness point is cheaper than a program. A point that meets every inequality with room shows that there is no
contradiction. Searching from it in several directions, without leaving the equalities, finds inequalities that are
needed: the first one reached, clearly before the next, is implied by no other, since just beyond it nothing else is
violated. Nor do inequalities with room imply an equality, so independent equalities are needed too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

from ferero._arrays import Array
from ferero.preference._expression import Constraint, entries

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "TOLERANCE",
    "Clash",
    "System",
    "contradiction",
    "find_points",
    "has_room",
    "is_independent",
    "maximize",
    "needed",
    "read_system",
    "redundant",
    "unmet",
]

Matrix: TypeAlias = "csr_array[np.float64, tuple[int, int]]"


# Relative to the data in every use; far above rounding, far below anything a person writes.
TOLERANCE = 1e-9

_ROOM = 1e-6  # relative to a row's terms: what counts as room, far above the tolerance of verdicts
_EXACT = TOLERANCE / 4  # relative to a row's terms: how well equalities must be met
_PRICE = 1e3  # of leaving the equalities, in units of room; too low a price costs further programs, not verdicts
_SEARCHES = ((0, 2), (0, 8), (2, 4))  # Newton steps to the analytic centre first, and the power that repels near rows
_AT_ONCE = 256  # directions searched together


class Clash(NamedTuple):
    """Constraints that cannot be met together.

    Attributes:
        size: By how much, relative to the size of the losses: `b . y` of the certificate.
        constraints: Their numbers, ascending.
    """

    size: float
    constraints: list[int]


@dataclass(frozen=True, eq=False)
class System:
    """Rows `B F + b <= 0` of unit length, an equality as two of them.

    Attributes:
        rows: B (k, m), without its zeros.
        offsets: b (k,).
        origins: The number of the constraint that each row comes from, (k,).
        equalities: The numbers of those that are equations. Each has two rows, the second minus the first.
    """

    rows: Matrix
    offsets: Array
    origins: npt.NDArray[np.int64]
    equalities: frozenset[int]

    @property
    def is_equality(self) -> npt.NDArray[np.bool_]:
        """Rows (k,) that are one side of an equation."""
        return np.isin(self.origins, list(self.equalities))

    def only(self, keep: Collection[int]) -> System:
        """The rows of some of the constraints."""
        mask = np.isin(self.origins, list(keep))
        return System(self.rows[mask], self.offsets[mask], self.origins[mask], self.equalities)

    def scales(self) -> Array:
        """The size of the losses in each row (k,): the largest offset among rows linked by losses.

        Losses that no row links may have any units, so an offset of 1e9 for one does not hide 1e-3 for another.
        """
        k, m = self.rows.shape
        row, loss = self.rows.nonzero()
        links = scipy.sparse.coo_array((np.ones(len(row)), (row, k + loss)), shape=(k + m, k + m))
        _, group = scipy.sparse.csgraph.connected_components(links, directed=False)
        largest = np.zeros(group.max() + 1)
        np.maximum.at(largest, group[:k], np.abs(self.offsets))
        return np.where(largest > 0, largest, 1.0)[group[:k]]


def read_system(constraints: Sequence[Constraint], numbers: Sequence[int]) -> System:
    """The rows of the constraints with these numbers, over the losses that they name."""
    forms = [constraints[i].form for i in numbers]
    names = list(dict.fromkeys(name for form in forms for name, _ in form.terms))
    (row, column), coefficients = entries(names, forms)
    values = np.array(coefficients)
    largest, squares = np.zeros(len(forms)), np.zeros(len(forms))
    np.maximum.at(largest, row, np.abs(values))  # first, so that squares neither overflow nor vanish
    values = values / largest[row]
    np.add.at(squares, row, values**2)
    lengths = np.sqrt(squares)
    rows = scipy.sparse.csr_array((values / lengths[row], (row, column)), shape=(len(forms), len(names)))
    offsets = np.array([form.constant for form in forms], dtype=np.float64) / largest / lengths
    equal = np.flatnonzero([constraints[i].is_equality for i in numbers])
    origins = np.array(numbers, dtype=np.int64)
    return System(
        scipy.sparse.vstack([rows, -rows[equal]], format="csr"),
        np.concatenate([offsets, -offsets[equal]]),
        np.concatenate([origins, origins[equal]]),
        frozenset(origins[equal].tolist()),
    )


def is_independent(rows: Matrix) -> bool:
    """Whether rows (k, m) of unit length are linearly independent: then none contradicts or implies another."""
    k, m = rows.shape
    if k == 0 or k > m:
        return k == 0
    singular = np.linalg.svd(rows.toarray(), compute_uv=False)
    return bool(singular[-1] > TOLERANCE * singular[0])


def contradiction(system: System) -> Clash | None:
    """A smallest set of constraints that no losses satisfy together, or None."""
    z = _certificate(system)
    if z is None:
        return None
    size, culprits = _clash(system, z)
    if not _is_smallest(system, z):
        for i in tuple(culprits):  # deletion filter: a constraint that can be left out is not part of the contradiction
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


def find_points(systems: Sequence[System], *, nonnegative: bool) -> list[Array | None]:
    """For each system a point x = F / scale (m,) with room, x >= 0 if `nonnegative`; None where none was found.

    One program for all of them, with the room t and the excess u of each:

        max  sum(t) - price sum(u)    with  B_g x + b_g <= -t,  |B_h x + b_h| <= u,  t <= 1,  u >= 0.

    Args:
        systems: of m losses each, which they do not share.
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
    for steps, power in _SEARCHES:
        if len(first) == len(slack):
            break
        for _ in range(steps):
            slack, length = _toward_centre(rows, slack)
            size = size + length
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
    """For every row (k, n) the direction to it that avoids the others, the nearer the more: `H^-1 row`.

    Of unit length; directions that vanish are left out.
    """
    ends = rows if isinstance(rows, np.ndarray) else rows.toarray()
    directions = np.linalg.solve(_nearness(rows, slack, power), ends.T).T
    lengths = np.linalg.norm(directions, axis=1)
    is_fine = np.isfinite(lengths) & (lengths > 0)
    unit: Array = directions[is_fine] / lengths[is_fine, None]
    return unit


def _toward_centre(rows: Matrix | Array, slack: Array) -> tuple[Array, float]:
    """The slacks (k,) after a Newton step towards the largest `sum(log(slack))`, and the step's length."""
    nearest = slack.min()
    newton = -np.linalg.solve(_nearness(rows, slack, 2), np.asarray(rows.T @ (nearest / slack))) * nearest
    steepness = np.asarray(rows @ newton)
    step = min(1.0, 0.9 / float((steepness / slack).max(initial=0.9)))
    while step > _ROOM and np.log1p(-step * steepness / slack).sum() < 0:
        step /= 2
    return slack - step * steepness, step * float(np.linalg.norm(newton))


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
