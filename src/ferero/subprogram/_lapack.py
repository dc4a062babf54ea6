"""LAPACK's solver of linear equations without the checks of numpy's, imported at its first use: training needs none."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["lapack_solver"]


@cache
def lapack_solver() -> Callable[..., tuple[Any, Any, Any, int]]:
    """``dgesv``: of a matrix and right sides the factors, the pivots, the solution, and 0 if there is one."""
    from scipy.linalg.lapack import dgesv

    found: Callable[..., tuple[Any, Any, Any, int]] = dgesv
    return found
