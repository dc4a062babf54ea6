"""``ferero bench methods``: the paper's algorithms and the neighbours, decision by decision and run by run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from ferero_lab.bench.measure import Part, run_parts, show_rows, show_seconds
from ferero_lab.bench.methods.agreement import bench_decisions, bench_slopes
from ferero_lab.bench.methods.claims import bench_claims
from ferero_lab.bench.methods.ferero_sa import bench_ferero_sa
from ferero_lab.bench.methods.learned_gramian import bench_learned_gramian
from ferero_lab.bench.methods.two_objectives import FAMILIES, bench_two_objectives
from ferero_lab.bench.step_cost import bench_stepper_cost

__all__ = ["run", "show"]

COLUMNS = (
    "reached",
    "on the front",
    "ray error in degrees, median",
    "evaluations until there, median",
    "milliseconds until there, median",
)


PARTS: dict[str, Part] = {
    "decisions": bench_decisions,
    "slopes": bench_slopes,
    "step cost": bench_stepper_cost,
    "Algorithms 2 and 3": bench_ferero_sa,
    "learned gramian": bench_learned_gramian,
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
