"""The subprogram: which direction, among those that the preference allows, improves the losses most."""

from __future__ import annotations

from ferero._arrays import Array
from ferero.subprogram._batched import solve_batched
from ferero.subprogram._consistency import is_doubtful, is_inconsistent
from ferero.subprogram._exact import Answer, solve_exact
from ferero.subprogram._frank_wolfe import frank_wolfe
from ferero.subprogram._gramian import check_gramian, check_gramians, factor, without_asymmetry
from ferero.subprogram._pgd import pgd
from ferero.subprogram._program import Domain, Program, Programs, simplex_of
from ferero.subprogram._solve import UNBOUNDED_PRICE, Solution, Solver, Status, solve_on_device, solve_subprogram

__all__ = [
    "UNBOUNDED_PRICE",
    "Answer",
    "Array",
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
