"""Constraints that are linked by losses: a point settles what it can, linear programs the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ferero.preference._consistency import farkas
from ferero.preference._consistency.parts import Clash
from ferero.preference._consistency.system import Array, System, is_independent, read_system
from ferero.preference._consistency.witness import find_points, has_room, needed
from ferero.preference._expression import Constraint

__all__ = ["Linked", "read_linked"]


@dataclass(frozen=True, eq=False)
class Linked:
    """A part (see `Part`) of several losses.

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
        """Whether a point is still wanted."""
        return not (self.is_reachable and (self.is_free or self.point is not None))

    def contradiction(self) -> Clash | None:
        """None where there is a point."""
        return None if self.is_free or self.point is not None else farkas.contradiction(self.system)

    def redundant(self) -> list[int]:
        """Asks for those only that no point shows to be needed."""
        if self.is_free:
            return []
        known = set() if self.point is None else needed(self.system, self.point)
        return farkas.redundant(self.system, [i for i in self.candidates if i not in known])

    def unmet(self) -> list[Clash]:
        """None where non-negative losses are known."""
        return [] if self.is_reachable else farkas.unmet(self.system)


def read_linked(constraints: Sequence[Constraint], parts: Sequence[Sequence[int]]) -> list[Linked]:
    """The parts whose constraints have these numbers, with the points that are known of them."""
    linked = [_read(constraints, numbers) for numbers in parts]
    for nonnegative in (True, False):
        open_ = [i for i, part in enumerate(linked) if part.is_open and (nonnegative or not part.is_free)]
        points = find_points([linked[i].system for i in open_], nonnegative=nonnegative)
        for i, point in zip(open_, points, strict=True):
            if point is not None:
                linked[i] = replace(linked[i], point=point, is_reachable=linked[i].is_reachable or nonnegative)
    return linked


def _read(constraints: Sequence[Constraint], numbers: Sequence[int]) -> Linked:
    """With F = 0 as the point, if that has room."""
    system = read_system(constraints, numbers)
    zero = np.zeros(system.rows.shape[1])
    is_free = is_independent(system.rows[: len(numbers)])
    candidates = [i for i in numbers if constraints[i].margin == 0]
    point = zero if has_room(system, zero) else None
    return Linked(system, candidates, is_free, point, bool(system.offsets.max() <= 0))
