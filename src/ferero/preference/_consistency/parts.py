"""Constraints in parts that share no loss: what is true of a part does not depend on the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ferero.preference._expression import Constraint

__all__ = ["TOLERANCE", "Clash", "Part", "split"]

# Relative to the data in every use; far above rounding, far below anything a person writes.
TOLERANCE = 1e-9


class Clash(NamedTuple):
    """Constraints that cannot be met together.

    Attributes:
        size: By how much, relative to the size of the losses: `b . y` of the certificate.
        constraints: Their numbers, ascending.
    """

    size: float
    constraints: list[int]


class Part(Protocol):
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
    """The numbers of the constraints that are linked by losses, part by part; each constraint names a loss."""
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
    parts: dict[str, list[int]] = {}
    for i, constraint in enumerate(constraints):
        parts.setdefault(root(constraint.form.terms[0][0]), []).append(i)
    return list(parts.values())
