"""``ferero bench steer``: the bars of steering in one table; what a step costs is measured by ``steering.cost``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console

from ferero_lab.bench.control.digit_constraints import bench_digit_constraints
from ferero_lab.bench.control.digit_rays import bench_digit_rays
from ferero_lab.bench.control.everywhere import bench_everywhere
from ferero_lab.bench.control.fairness import bench_fairness
from ferero_lab.bench.control.fronts import bench_fronts
from ferero_lab.bench.control.held_out import bench_held_out
from ferero_lab.bench.measure import Row
from ferero_lab.bench.parts import Part, run_parts, show_rows, show_seconds

__all__ = ["run", "show"]


def _several_processes(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:  # noqa: ARG001
    rows = bench_everywhere()
    tick()
    return rows, []


PARTS: dict[str, Part] = {
    "fronts": bench_fronts,
    "digit pairs": bench_digit_rays,
    "three losses": bench_digit_constraints,
    "validation": bench_held_out,
    "fairness": bench_fairness,
    "several processes": _several_processes,
}


def run(quick: bool, progress: Callable[[str], Callable[[], None]]) -> dict[str, Any]:
    """Measure everything; quick: fewer rays, rates and steps."""
    return run_parts("steer", PARTS, quick, progress)


def show(result: dict[str, Any], console: Console) -> None:
    """Print the rows, and how long each part took."""
    show_rows(result, console)
    show_seconds(result, console)
