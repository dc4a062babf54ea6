"""The problems by name, at their usual size."""

from __future__ import annotations

from collections.abc import Callable

from ferero.errors import UnknownNameError
from ferero_lab.problems.dtlz2 import DTLZ2, ConvexDTLZ2
from ferero_lab.problems.exponential import Exponential
from ferero_lab.problems.exponential_three import ExponentialThree
from ferero_lab.problems.missed_ray import MissedRay
from ferero_lab.problems.problem import Problem
from ferero_lab.problems.quadratics import ConvexQuadratics
from ferero_lab.problems.zdt import ZDT1, ZDT2

__all__ = ["get", "names"]

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
