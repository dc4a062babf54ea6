"""A benchmark is a list of rows: what was measured, the bar it should reach, and the machine it was measured on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Part",
    "Row",
    "environment",
    "result_of",
    "rows_to_json",
    "run_parts",
    "seconds",
    "show_rows",
    "show_seconds",
    "summary",
]

PACKAGES = ("torch", "numpy", "scipy", "piqp", "clarabel", "moocore", "ipyopt")


@dataclass(frozen=True)
class Row:
    """One measured number.

    Attributes:
        group: what it belongs to.
        measure: what was measured.
        value: what came out.
        bar: what it should reach, None for information only.
        higher_is_better: the direction of the bar.
        note: how, in a few words.
    """

    group: str
    measure: str
    value: float
    bar: float | None = None
    higher_is_better: bool = False
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the bar is reached; None without one."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.higher_is_better else self.value <= self.bar


Part: TypeAlias = Callable[[bool, Callable[[], None]], tuple[list[Row], list[dict[str, Any]]]]
"""``part(quick, tick)``: the rows of one part, and all runs behind them."""


def rows_to_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as plain data, with their verdicts."""
    return [asdict(row) | {"passed": row.passed} for row in rows]


def result_of(name: str, quick: bool, rows: Sequence[Row]) -> dict[str, Any]:
    """The record of a benchmark: its name, the date, versions and machine, and the rows."""
    return {
        "name": name,
        "quick": quick,
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(),
        "rows": rows_to_json(rows),
    }


def environment() -> dict[str, Any]:
    """Versions and the kind of machine; no names of machines."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in PACKAGES},
        "ferero": _version("ferero"),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def summary(values: Sequence[float]) -> str:
    """The 90 % quantile and the largest value, for a note."""
    return f"90 % within {np.percentile(values, 90):.4g}, at most {max(values):.4g}"


def run_parts(
    name: str, parts: Mapping[str, Part], quick: bool, progress: Callable[[str], Callable[[], None]]
) -> dict[str, Any]:
    """Measure everything, on one core.

    Args:
        name: of the benchmark.
        parts: by title.
        quick: a small sample.
        progress: ``progress(title)`` gives a function to call after each piece of work.

    Returns:
        Plain data: rows, all runs behind them, seconds of each part, environment and date.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[Row] = []
    runs: list[dict[str, Any]] = []
    taken = {}
    try:
        for title, part in parts.items():
            begin = time.perf_counter()
            more, done = part(quick, progress(title))
            rows += more
            runs += done
            taken[title] = time.perf_counter() - begin
    finally:
        torch.set_num_threads(threads)
    return result_of(name, quick, rows) | {"runs": runs, "seconds": taken}


def show_rows(result: dict[str, Any], console: Console) -> None:
    """Print the rows, with their bars."""
    from rich.table import Table  # here, since `step_cost` runs where there is torch alone

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
