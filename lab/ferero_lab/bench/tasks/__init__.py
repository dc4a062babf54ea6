"""Everyday training under constraints, by ferero and by tuned rivals: ``ferero bench tasks``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console

__all__ = ["run", "show"]


def run(quick: bool, progress: Callable[[str], Callable[[], None]], **options: Any) -> dict[str, Any]:
    """Measure everything; see `bench.run`, which is imported here so that a task can be had without it."""
    from ferero_lab.bench.tasks import bench

    return bench.run(quick, progress, **options)


def show(result: dict[str, Any], console: Console) -> None:
    """Print the tables; see `tables.show`."""
    from ferero_lab.bench.tasks import tables

    tables.show(result, console)
