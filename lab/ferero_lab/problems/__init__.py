"""Test problems, each carrying its own truth: front, ideal point, reference point, distance."""

from __future__ import annotations

from collections.abc import Callable

from ferero.errors import UnknownNameError
from ferero_lab.problems.box import DTLZ2, ZDT1, ZDT2, ConvexDTLZ2
from ferero_lab.problems.exponential import Exponential, ExponentialThree
from ferero_lab.problems.missed_ray import MissedRay
from ferero_lab.problems.problem import HullProblem, Problem
from ferero_lab.problems.quadratics import ConvexQuadratics

__all__ = [
    "DTLZ2",
    "ZDT1",
    "ZDT2",
    "ConvexDTLZ2",
    "ConvexQuadratics",
    "Exponential",
    "ExponentialThree",
    "HullProblem",
    "MissedRay",
    "Problem",
    "get",
    "names",
]

_MAKERS: tuple[Callable[[], Problem], ...] = (
    Exponential,
    ExponentialThree,
    ConvexQuadratics,
    MissedRay,
    ZDT1,
    ZDT2,
    DTLZ2,
    ConvexDTLZ2,
)


def names() -> tuple[str, ...]:
    """The names that `get` knows."""
    return tuple(make().name for make in _MAKERS)


def get(name: str) -> Problem:
    """The problem of that name.

    Raises:
        UnknownNameError: for a name that is none of `names()`.

    Example:
        >>> get("exponential").n
        20
    """
    for make in _MAKERS:
        problem = make()
        if problem.name == name:
            return problem
    raise UnknownNameError(f"name: expected one of {', '.join(names())}, found {name!r}.")
