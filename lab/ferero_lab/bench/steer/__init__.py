"""``ferero bench steer``: how near training comes to its preference; what a step costs is measured by `step_cost`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferero_lab.bench.measure import Part, run_parts, show_rows, show_seconds
from ferero_lab.bench.steer.group_rates import bench_group_rates
from ferero_lab.bench.steer.held_out import bench_held_out
from ferero_lab.bench.steer.learning_rates import bench_digit_constraints, bench_digit_rays, bench_fronts
from ferero_lab.bench.steer.processes import bench_processes

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["PARTS", "run", "show"]

PARTS: dict[str, Part] = {
    "fronts": bench_fronts,
    "digit pairs": bench_digit_rays,
    "three losses": bench_digit_constraints,
    "validation": bench_held_out,
    "fairness": bench_group_rates,
    "several processes": bench_processes,
}


def run(quick: bool, progress: Callable[[str], Callable[[], None]]) -> dict[str, Any]:
    """Measure everything; quick: fewer rays, rates and steps."""
    return run_parts("steer", PARTS, quick, progress)


def show(result: dict[str, Any], console: Console) -> None:
    """Print the rows, and how long each part took."""
    show_rows(result, console)
    show_seconds(result, console)
