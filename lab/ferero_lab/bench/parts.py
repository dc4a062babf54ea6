"""A benchmark of several parts: runs them one by one on one core, and shows their rows in one table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from rich.console import Console
from rich.table import Table

from ferero_lab.bench.measure import Row, result_of

__all__ = ["Part", "run_parts", "show_rows", "show_seconds"]

Part: TypeAlias = Callable[[bool, Callable[[], None]], tuple[list[Row], list[dict[str, Any]]]]


def run_parts(
    name: str, parts: Mapping[str, Part], quick: bool, progress: Callable[[str], Callable[[], None]]
) -> dict[str, Any]:
    """Measure everything, on one core.

    Args:
        name: of the benchmark.
        parts: each ``part(quick, tick)`` gives its rows, and all runs behind them.
        quick: a small sample.
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
        for title, part in parts.items():
            begin = time.perf_counter()
            more, done = part(quick, progress(title))
            rows += more
            runs += done
            seconds[title] = time.perf_counter() - begin
    finally:
        torch.set_num_threads(threads)
    return result_of(name, quick, rows) | {"runs": runs, "seconds": seconds}


def show_rows(result: dict[str, Any], console: Console) -> None:
    """Print the rows, with their bars."""
    title = f"ferero bench {result['name']}" + (" --quick" if result["quick"] else "")
    table = Table(title=title, title_justify="left")
    for name in ("", "measure", "value", "bar", "", "note"):
        table.add_column(name, justify="right" if name in ("value", "bar") else "left")
    last = None
    for row in result["rows"]:
        mark = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[row["passed"]]
        bar = "" if row["bar"] is None else f"{'>=' if row['higher_is_better'] else '<='} {row['bar']:.4g}"
        if last is not None and row["group"] != last:
            table.add_section()
        group = row["group"] if row["group"] != last else ""
        value = "-" if row["value"] is None else f"{row['value']:.4g}"  # JSON has no word for inf
        table.add_row(group, row["measure"], value, bar, mark, row["note"])
        last = row["group"]
    console.print(table)


def show_seconds(result: dict[str, Any], console: Console) -> None:
    """Print how long each part took."""
    console.print("seconds: " + ", ".join(f"{title} {value:.0f}" for title, value in result["seconds"].items()))
