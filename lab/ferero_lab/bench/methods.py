"""``ferero bench methods``: the paper's algorithms and the neighbours, decision by decision and run by run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from ferero_lab.bench.comparison.claims import bench_claims
from ferero_lab.bench.comparison.decisions import bench_decisions
from ferero_lab.bench.comparison.learned_gramian import bench_learned_gramian
from ferero_lab.bench.comparison.rates import bench_rates
from ferero_lab.bench.comparison.slopes import bench_slopes
from ferero_lab.bench.comparison.step_cost import bench_step_cost
from ferero_lab.bench.comparison.two_objectives import FAMILIES, bench_two_objectives
from ferero_lab.bench.measure import Row
from ferero_lab.bench.parts import Part, run_parts, show_rows, show_seconds

__all__ = ["run", "show"]

COLUMNS = (
    "reached",
    "on the front",
    "ray error in degrees, median",
    "evaluations until there, median",
    "milliseconds until there, median",
)


def _rows_only(bench: Callable[[bool, Callable[[], None]], list[Row]]) -> Part:
    return lambda quick, tick: (bench(quick, tick), [])


PARTS: dict[str, Part] = {
    "decisions": bench_decisions,
    "slopes": bench_slopes,
    "step cost": bench_step_cost,
    "Algorithms 2 and 3": _rows_only(bench_rates),
    "learned gramian": _rows_only(bench_learned_gramian),
    "claims": bench_claims,
    "two objectives": bench_two_objectives,
}


def run(quick: bool, progress: Callable[[str], Callable[[], None]]) -> dict[str, Any]:
    """Measure everything; quick: fewer rays, instances and steps."""
    return run_parts("methods", PARTS, quick, progress)


def show(result: dict[str, Any], console: Console) -> None:
    """Print the rows with bars, then every method on the same rays."""
    rows = [row for row in result["rows"] if row["group"] != "claims" and not row["group"].startswith("two objectives")]
    show_rows({**result, "rows": rows}, console)
    for family in FAMILIES:
        console.print(_comparison(result, family))
    show_seconds(result, console)


def _comparison(result: dict[str, Any], family: str) -> Table:
    """One line for each method: success, evaluations and time."""
    table = Table(title=f"two objectives, {family} starts", title_justify="left")
    table.add_column("method")
    for name in COLUMNS:
        table.add_column(name.replace(", median", ""), justify="right")
    found: dict[str, dict[str, float]] = {}
    for row in result["rows"]:
        if row["group"] == f"two objectives, {family}":
            method, measure = row["measure"].rsplit(": ", 1)
            found.setdefault(method, {})[measure] = row["value"]
    for method, values in found.items():
        table.add_row(method, *("" if values.get(name) is None else f"{values[name]:.3g}" for name in COLUMNS))
    return table
