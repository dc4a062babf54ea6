"""The subprogram: which direction, among those that the preference allows, improves the losses most."""

from __future__ import annotations

from ferero.subprogram.batched import solve_batched
from ferero.subprogram.consistency import is_doubtful, is_inconsistent
from ferero.subprogram.exact import Answer, solve_exact
from ferero.subprogram.frank_wolfe import frank_wolfe
from ferero.subprogram.gradient import pgd
from ferero.subprogram.gramian import check_gramian, check_gramians, factor
from ferero.subprogram.on_device import solve_on_device, without_asymmetry
from ferero.subprogram.program import Domain, Program, simplex_of
from ferero.subprogram.programs import Programs
from ferero.subprogram.solution import Solution, Status
from ferero.subprogram.solve import UNBOUNDED_PRICE, Solver, solve_subprogram

__all__ = [
    "UNBOUNDED_PRICE",
    "Answer",
    "Domain",
    "Program",
    "Programs",
    "Solution",
    "Solver",
    "Status",
    "check_gramian",
    "check_gramians",
    "factor",
    "frank_wolfe",
    "is_doubtful",
    "is_inconsistent",
    "pgd",
    "simplex_of",
    "solve_batched",
    "solve_exact",
    "solve_on_device",
    "solve_subprogram",
    "without_asymmetry",
]
