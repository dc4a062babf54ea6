"""`ferero.minimize` beside SLSQP, trust-constr and IPOPT on smooth problems: ``ferero bench solver``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console

__all__ = ["run", "show"]


def run(quick: bool, progress: Callable[[str], Callable[[], None]], **options: Any) -> dict[str, Any]:
    """Measure everything; see `bench.run`, which is imported here so that a problem can be had without it."""
    from ferero_lab.bench.solver import bench

    return bench.run(quick, progress, **options)


def show(result: dict[str, Any], console: Console) -> None:
    """Print the tables; see `tables.show`."""
    from ferero_lab.bench.solver import tables

    tables.show(result, console)
