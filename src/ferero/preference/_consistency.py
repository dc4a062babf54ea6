"""Can the constraints of a preference be met, and which of them are redundant?

Constraints that share no loss do not affect each other, so each connected component is judged alone. Constraints on one
loss form an interval. In other components witness points answer first, and linear programs what is left
(`_farkas.py`). Two thousand bounds on a thousand losses need no program.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from ferero._arrays import Array
from ferero.errors import ContradictionError
from ferero.preference import _farkas as farkas
from ferero.preference._expression import Constraint
from ferero.preference._family import Family
from ferero.preference._farkas import TOLERANCE, Clash, System
from ferero.preference._symmetry import representatives

__all__ = ["check_consistent", "check_levels"]


def check_consistent(constraints: Sequence[Constraint], silent: Collection[int] = ()) -> tuple[str, ...]:
    """Look for contradictions, redundancies and what no non-negative losses can meet.

    Args:
        constraints: constraints of one row each.
        silent: the numbers of those that are not to be called redundant.

    Returns:
        Sentences for `Preference.notes`.

    Raises:
        ContradictionError: naming a smallest set of constraints that no losses satisfy together.
    """
    notes = [note for c in constraints for note in _check_constant(c)]
    stated = [c for c in constraints if c.form.terms]
    told = {i for i, c in enumerate(c for c in enumerate(constraints) if c[1].form.terms) if c[0] not in silent}
    components = _read_components(stated)
    clashes = [clash for component in components if (clash := component.contradiction()) is not None]
    if clashes:
        listed = _listed(stated, max(clashes, key=lambda clash: clash.size))
        raise ContradictionError(
            f"constraints contradict each other: no losses satisfy {listed}; drop or relax one of them"
        )
    notes += [
        f"'{stated[i].text}' is redundant: the other constraints imply it"
        for i in sorted(i for component in components for i in component.redundant())
        if i in told
    ]
    unmet = [component.unmet() for component in components]
    notes += [f"no non-negative losses can meet {_listed(stated, clash)}" for clash in _largest_first(unmet)]
    return tuple(dict.fromkeys(notes))


def check_levels(parts: Sequence[Constraint], families: Sequence[Family] = ()) -> tuple[str, ...]:
    """`check_consistent` at every step at which a level begins or ends to move; notes that hold at all of them.

    Between two such steps levels that move evenly have an answer wherever they have one at both.

    Args:
        parts: constraints of one row each, or of one row for each member of a family.
        families: all of them.

    Raises:
        ContradictionError: naming the step, and constraints that no losses satisfy together there.
    """
    steps = sorted({step for part in parts if part.schedule is not None for step in part.schedule.knots})
    if not steps:
        return check_consistent(*representatives(parts, families))
    found = []
    for step in steps:
        try:
            found.append(check_consistent(*representatives([part.at(step) for part in parts], families)))
        except ContradictionError as error:
            raise ContradictionError(f"at step {step} of training: {error}") from None
    return tuple(note for note in found[-1] if all(note in notes for notes in found))


def _check_constant(constraint: Constraint) -> list[str]:
    """Notes on a constraint without objectives, which holds always or never."""
    form = constraint.form
    if form.terms:
        return []
    slack = TOLERANCE * (abs(constraint.left.constant) + abs(constraint.right.constant))
    value = abs(form.constant) if constraint.is_equality else form.constant
    if value > slack:
        raise ContradictionError(
            f"constraints: '{constraint.text}' contains no objective and never holds; remove it or correct it"
        )
    return [f"'{constraint.text}' contains no objective and always holds"]


def _read_components(constraints: Sequence[Constraint]) -> list[Component]:
    groups = split(constraints)
    is_linked = [any(len(constraints[i].form.terms) > 1 for i in numbers) for numbers in groups]
    linked = iter(read_linked(constraints, [numbers for numbers, more in zip(groups, is_linked, strict=True) if more]))
    return [
        next(linked) if more else Bounds(constraints, numbers) for numbers, more in zip(groups, is_linked, strict=True)
    ]


def _largest_first(clashes: Sequence[list[Clash]]) -> list[Clash]:
    """The clashes of all components, largest first, except that each component's own keep their order."""
    waiting = [(-own[0].size, i, 0) for i, own in enumerate(clashes) if own]
    heapq.heapify(waiting)
    merged = []
    while waiting:
        _, i, at = heapq.heappop(waiting)
        merged.append(clashes[i][at])
        if at + 1 < len(clashes[i]):
            heapq.heappush(waiting, (-clashes[i][at + 1].size, i, at + 1))
    return merged


def _listed(constraints: Sequence[Constraint], clash: Clash) -> str:
    quoted = [f"'{constraints[i].text}'" for i in clash.constraints]
    if len(quoted) == 1:
        return quoted[0]
    start = "both " if len(quoted) == 2 else "all of "
    return start + ", ".join(quoted[:-1]) + f" and {quoted[-1]}"


class Component(Protocol):
    """Constraints that share losses with each other and with no others."""

    def contradiction(self) -> Clash | None:
        """A smallest set of constraints that no losses satisfy together, if there is one."""

    def redundant(self) -> list[int]:
        """Constraints implied by the others, where there is no contradiction; of two that imply each other the later.

        One with a margin is never counted: the others need not imply it once their noise is added.
        """

    def unmet(self) -> list[Clash]:
        """Disjoint sets of constraints that no F >= 0 satisfies together, where there is no contradiction."""


def split(constraints: Sequence[Constraint]) -> list[list[int]]:
    """The connected components: numbers of the constraints that losses link; each constraint names a loss."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while (parent := parents.setdefault(name, name)) != name:
            parents[name] = name = parents[parent]
        return name

    for constraint in constraints:
        terms = constraint.form.terms
        first = root(terms[0][0])
        for name, _ in terms[1:]:
            parents[root(name)] = first
    groups: dict[str, list[int]] = {}
    for i, constraint in enumerate(constraints):
        groups.setdefault(root(constraint.form.terms[0][0]), []).append(i)
    return list(groups.values())


class _Bound(NamedTuple):
    """`f + offset <= 0`, or `-f + offset <= 0` from below, of the constraint with a number."""

    offset: float
    constraint: int


class Bounds:
    """A component whose constraints name a single loss: an interval, and no linear program.

    Args:
        constraints: all constraints.
        numbers: which of them are of this component, ascending.
    """

    def __init__(self, constraints: Sequence[Constraint], numbers: Sequence[int]) -> None:
        self._candidates = [i for i in numbers if constraints[i].margin == 0]
        above: list[_Bound] = []
        below: list[_Bound] = []
        for i in numbers:
            form = constraints[i].form
            ((_, coefficient),) = form.terms
            sides = (above, below) if coefficient > 0 else (below, above)
            offset = form.constant / abs(coefficient)
            sides[0].append(_Bound(offset, i))
            if constraints[i].is_equality:
                sides[1].append(_Bound(-offset, i))
        self._above, self._below = (sorted(side, key=lambda bound: -bound.offset) for side in (above, below))

    def contradiction(self) -> Clash | None:
        """The tightest bounds from above and from below, where they leave nothing between them."""
        if not (self._above and self._below):
            return None
        above, below = self._above[0], self._below[0]
        excess = above.offset + below.offset
        if not excess > TOLERANCE * (abs(above.offset) + abs(below.offset)):
            return None
        return Clash(excess / (2 * self._largest(())), sorted((above.constraint, below.constraint)))

    def redundant(self) -> list[int]:
        """Those that others are as tight as."""
        dropped: set[int] = set()
        for i in reversed(self._candidates):
            if all(_is_implied(i, side, dropped) for side in (self._above, self._below)):
                dropped.add(i)
        return sorted(dropped)

    def unmet(self) -> list[Clash]:
        """Negative bounds from above, the lowest first."""
        found: list[Clash] = []
        while len(found) < len(self._above) and self._above[len(found)].offset > 0:
            bound = self._above[len(found)]
            rest = self._largest({i for clash in found for i in clash.constraints})
            found.append(Clash(bound.offset / rest, [bound.constraint]))
        return found

    def _largest(self, dropped: set[int] | tuple[()]) -> float:
        """The size of the loss: the largest of all offsets, 1 if they vanish."""
        sizes = (abs(bound.offset) for bound in (*self._above, *self._below) if bound.constraint not in dropped)
        return max(sizes, default=0.0) or 1.0


def _is_implied(i: int, side: Sequence[_Bound], dropped: set[int]) -> bool:
    """Whether the bound of constraint i from a side, if it has one, is no tighter than others that are not dropped."""
    own = next((bound.offset for bound in side if bound.constraint == i), None)
    if own is None:
        return True
    others = (bound.offset for bound in side if bound.constraint != i and bound.constraint not in dropped)
    other = next(others, None)
    return other is not None and other + TOLERANCE * (abs(other) + abs(own)) >= own


@dataclass(frozen=True, eq=False)
class Linked:
    """A component of several losses.

    Args:
        system: its rows.
        candidates: the constraints that may be called redundant: those without a margin.
        is_free: whether the rows are independent, so that none contradicts or implies another.
        point: losses, relative to the largest offset, that meet all constraints with room, if any are known.
        is_reachable: whether some F >= 0 is known to meet all constraints.
    """

    system: System
    candidates: list[int]
    is_free: bool
    point: Array | None = None
    is_reachable: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a point would still answer something."""
        return not (self.is_reachable and (self.is_free or self.point is not None))

    def contradiction(self) -> Clash | None:
        """None where there is a point."""
        return None if self.is_free or self.point is not None else farkas.contradiction(self.system)

    def redundant(self) -> list[int]:
        """Puts only those to a program that the point does not show to be needed."""
        if self.is_free:
            return []
        known = set() if self.point is None else farkas.needed(self.system, self.point)
        return farkas.redundant(self.system, [i for i in self.candidates if i not in known])

    def unmet(self) -> list[Clash]:
        """None where non-negative losses are known."""
        return [] if self.is_reachable else farkas.unmet(self.system)


def read_linked(constraints: Sequence[Constraint], groups: Sequence[Sequence[int]]) -> list[Linked]:
    """The components of these constraints' numbers, with the points known of them."""
    linked = [_read_one(constraints, numbers) for numbers in groups]
    for nonnegative in (True, False):
        open_ = [i for i, one in enumerate(linked) if one.is_open and (nonnegative or not one.is_free)]
        points = farkas.find_points([linked[i].system for i in open_], nonnegative=nonnegative)
        for i, point in zip(open_, points, strict=True):
            if point is not None:
                linked[i] = replace(linked[i], point=point, is_reachable=linked[i].is_reachable or nonnegative)
    return linked


def _read_one(constraints: Sequence[Constraint], numbers: Sequence[int]) -> Linked:
    """With F = 0 as the point, if that has room."""
    system = farkas.read_system(constraints, numbers)
    zero = np.zeros(system.rows.shape[1])
    is_free = farkas.is_independent(system.rows[: len(numbers)])
    candidates = [i for i in numbers if constraints[i].margin == 0]
    point = zero if farkas.has_room(system, zero) else None
    return Linked(system, candidates, is_free, point, bool(system.offsets.max() <= 0))
