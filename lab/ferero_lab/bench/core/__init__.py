"""``ferero bench core``: the subprogram, rays on smooth problems, and SciPy on the same problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from ferero_lab.bench.core.rays import bench_rays, bench_scipy
from ferero_lab.bench.core.subprograms import bench_subprograms
from ferero_lab.bench.measure import result_of, show_rows

__all__ = ["run", "show"]


def run(quick: bool, progress: Callable[[str], Callable[[], None]]) -> dict[str, Any]:
    """Measure everything.

    Args:
        quick: a tenth of the instances.
        progress: ``progress(title)`` gives a function to call after each piece of work.

    Returns:
        Plain data: rows, the performance profile, environment and date.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [
            *bench_subprograms(quick, progress("subprograms")),
            *bench_rays(quick, progress("rays")),
        ]
        others, profile = bench_scipy(quick, progress("SciPy on the same problems"))
    finally:
        torch.set_num_threads(threads)
    return result_of("core", quick, [*rows, *others]) | {"profile": profile}


def show(result: dict[str, Any], console: Console) -> None:
    """Print the rows, then the performance profile."""
    show_rows(result, console)
    profile = result["profile"]
    shares = Table(
        title="share of all runs solved within a multiple of the best solver's evaluations",
        title_justify="left",
    )
    for name in ("solver", *(f"{multiple:g} x" for multiple in profile["multiples"]), "at all"):
        shares.add_column(name, justify="left" if name == "solver" else "right")
    for name, values in profile["shares"].items():
        shares.add_row(name, *(f"{value:.0%}" for value in values), f"{profile['solved'][name]:.0%}")
    console.print(shares)
