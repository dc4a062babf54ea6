"""Constraints on one and the same loss: an interval, and no linear program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ferero.preference._consistency.parts import TOLERANCE, Clash
from ferero.preference._expression import Constraint

__all__ = ["Bounds"]


class _Bound(NamedTuple):
    """`f + offset <= 0`, or `-f + offset <= 0` from below, of the constraint with a number."""

    offset: float
    constraint: int


class Bounds:
    """A part (see `Part`) whose constraints name a single loss.

    Args:
        constraints: all constraints.
        numbers: which of them are of this part, ascending.
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
