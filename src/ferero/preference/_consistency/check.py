"""The verdict on all constraints of a preference, from the verdicts on its parts."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ferero.errors import ContradictionError
from ferero.preference._consistency.bounds import Bounds
from ferero.preference._consistency.linked import read_linked
from ferero.preference._consistency.parts import TOLERANCE, Clash, Part, split
from ferero.preference._expression import Constraint

__all__ = ["check_consistent"]


def check_consistent(constraints: Sequence[Constraint]) -> tuple[str, ...]:
    """Look for contradictions, redundancies and what no non-negative losses can meet.

    Args:
        constraints: constraints of one row each.

    Returns:
        Sentences for `Preference.notes`.

    Raises:
        ContradictionError: naming a smallest set of constraints that no losses satisfy together.
    """
    notes = [note for c in constraints for note in _check_constant(c)]
    wanted = [c for c in constraints if c.form.terms]
    parts = _read_parts(wanted)
    clashes = [clash for part in parts if (clash := part.contradiction()) is not None]
    if clashes:
        listed = _listed(wanted, max(clashes, key=lambda clash: clash.size))
        raise ContradictionError(
            f"constraints contradict each other: no losses satisfy {listed}; drop or relax one of them"
        )
    notes += [
        f"'{wanted[i].text}' is redundant: the other constraints imply it"
        for i in sorted(i for part in parts for i in part.redundant())
    ]
    unmet = [part.unmet() for part in parts]
    notes += [f"no non-negative losses can meet {_listed(wanted, clash)}" for clash in _largest_first(unmet)]
    return tuple(notes)


def _check_constant(constraint: Constraint) -> list[str]:
    """Judge a constraint in which no objective is left."""
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


def _read_parts(constraints: Sequence[Constraint]) -> list[Part]:
    parts = split(constraints)
    is_linked = [any(len(constraints[i].form.terms) > 1 for i in numbers) for numbers in parts]
    linked = iter(read_linked(constraints, [numbers for numbers, more in zip(parts, is_linked, strict=True) if more]))
    return [
        next(linked) if more else Bounds(constraints, numbers) for numbers, more in zip(parts, is_linked, strict=True)
    ]


def _largest_first(clashes: Sequence[list[Clash]]) -> list[Clash]:
    """The clashes of all parts, each part's own in their order, always the largest that is next in its part."""
    waiting = [(-part[0].size, i, 0) for i, part in enumerate(clashes) if part]
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
