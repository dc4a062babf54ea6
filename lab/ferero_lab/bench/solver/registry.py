"""All problems, and their two halves: constants are chosen on one, figures are reported on the other.

Within a family the groups fall to the halves in turn, in the order in which they are written down. This was settled
before any solver was run on them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

from ferero.errors import UnknownNameError
from ferero_lab.bench.solver.boxed import BOXED
from ferero_lab.bench.solver.engineering import ENGINEERING
from ferero_lab.bench.solver.smooth import SmoothProblem
from ferero_lab.bench.solver.unbounded import UNBOUNDED

__all__ = ["PROBLEMS", "ProblemHalf", "get_problem", "half_of", "problems_of"]

ProblemHalf: TypeAlias = Literal["tune", "report"]

PROBLEMS: tuple[SmoothProblem, ...] = (*UNBOUNDED, *BOXED, *ENGINEERING)
"""In the order of the families."""


@lru_cache
def _halves() -> dict[str, ProblemHalf]:
    """Which half each group is in; a group of two families is where its first problem is."""
    found: dict[str, ProblemHalf] = {}
    for first, family in enumerate((UNBOUNDED, BOXED, ENGINEERING)):
        new = [group for group in dict.fromkeys(problem.group for problem in family) if group not in found]
        found |= {group: "tune" if (first + index) % 2 == 0 else "report" for index, group in enumerate(new)}
    return found


def half_of(problem: SmoothProblem) -> ProblemHalf:
    """The half that a problem is in."""
    return _halves()[problem.group]


def problems_of(half: ProblemHalf) -> tuple[SmoothProblem, ...]:
    """The problems of a half, in order."""
    return tuple(problem for problem in PROBLEMS if half_of(problem) == half)


def get_problem(name: str) -> SmoothProblem:
    """The problem of that name.

    Raises:
        UnknownNameError: for a name that there is not.

    Example:
        >>> get_problem("SK1").m
        2
    """
    for problem in PROBLEMS:
        if problem.name == name:
            return problem
    names = ", ".join(problem.name for problem in PROBLEMS)
    raise UnknownNameError(f"name: expected one of {names}, found {name!r}.")
