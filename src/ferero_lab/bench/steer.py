"""``ferero bench steer``: the bars of steering in one table; what a step costs is measured by ``steering.cost``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from ferero_lab.bench.measure import Row, result_of
from ferero_lab.bench.steering.digit_constraints import bench_digit_constraints
from ferero_lab.bench.steering.digit_rays import bench_digit_rays
from ferero_lab.bench.steering.everywhere import bench_everywhere
from ferero_lab.bench.steering.fairness import bench_fairness
from ferero_lab.bench.steering.fronts import bench_fronts
from ferero_lab.bench.steering.held_out import bench_held_out

__all__ = ["run", "show"]

Bench = Callable[[bool, Callable[[], None]], tuple[list[Row], list[dict[str, Any]]]]


def _several_processes(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:  # noqa: ARG001
    rows = bench_everywhere()
    tick()
    return rows, []


PARTS: dict[str, Bench] = {
    "fronts": bench_fronts,
    "digit pairs": bench_digit_rays,
    "three losses": bench_digit_constraints,
    "validation": bench_held_out,
    "fairness": bench_fairness,
    "several processes": _several_processes,
}


def run(quick: bool, progress: Callable[[str], Callable[[], None]]) -> dict[str, Any]:
    """Measure everything, on one core.

    Args:
        quick: fewer rays, rates and steps.
        progress: ``progress(title)`` gives a function to call after each piece of work.

    Returns:
        Plain data: rows, all runs behind them, seconds of each part, environment and date.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[Row] = []
    runs: list[dict[str, Any]] = []
    seconds = {}
    try:
        for title, bench in PARTS.items():
            begin = time.perf_counter()
            more, done = bench(quick, progress(title))
            rows += more
            runs += done
            seconds[title] = time.perf_counter() - begin
    finally:
        torch.set_num_threads(threads)
    return result_of("steer", quick, rows) | {"runs": runs, "seconds": seconds}


def show(result: dict[str, Any], console: Console) -> None:
    """Print the rows, and how long each part took."""
    table = Table(title="ferero bench steer" + (" --quick" if result["quick"] else ""), title_justify="left")
    for name in ("", "measure", "value", "bar", "", "note"):
        table.add_column(name, justify="right" if name in ("value", "bar") else "left")
    last = None
    for row in result["rows"]:
        mark = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[row["passed"]]
        bar = "" if row["bar"] is None else f"{'>=' if row['higher_is_better'] else '<='} {row['bar']:.4g}"
        if last is not None and row["group"] != last:
            table.add_section()
        group = row["group"] if row["group"] != last else ""
        table.add_row(group, row["measure"], f"{row['value']:.4g}", bar, mark, row["note"])
        last = row["group"]
    console.print(table)
    console.print("seconds: " + ", ".join(f"{title} {value:.0f}" for title, value in result["seconds"].items()))
