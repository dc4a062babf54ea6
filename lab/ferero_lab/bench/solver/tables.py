"""What `ferero bench solver` found, as tables: plain cells of text, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from ferero.cli import new_table
from ferero_lab.bench.measure import show_rows, show_seconds

__all__ = ["failures", "outcomes", "show", "verdicts"]

Cells = tuple[tuple[str, ...], list[list[str]]]

_MOST = 25  # failures that a terminal shows; the file has them all
_SHOWN = ("ferero", "SLSQP", "IPOPT", "trust-constr")


def outcomes(cells: Sequence[Mapping[str, Any]]) -> Cells:
    """Solved, evaluations and time of each solver, for each family and kind."""
    names = [name for name in _SHOWN if any(name in cell["solvers"] for cell in cells)]
    header = (
        "family",
        "kind",
        "trials",
        f"solved, %: {' / '.join(names)}",
        "or a local solution, %",
        "evaluations where all arrive, median",
        "time over SLSQP",
    )
    rows = []
    for cell in cells:
        found = [cell["solvers"].get(name) for name in names]
        rows.append(
            [
                cell["family"],
                cell["kind"],
                f"{cell['trials']}",
                " / ".join("-" if one is None else f"{100 * one['solved']:.0f}" for one in found),
                " / ".join("-" if one is None else f"{100 * (one['solved'] + one['local']):.0f}" for one in found),
                " / ".join(_number(one, "evaluations", "g") for one in found),
                " / ".join(_number(one, "time_over_slsqp", ".1f") for one in found),
            ]
        )
    return header, rows


def _number(one: Mapping[str, Any] | None, key: str, form: str) -> str:
    return "-" if one is None or one[key] is None else f"{one[key]:{form}}"


def failures(found: Sequence[Mapping[str, Any]]) -> Cells:
    """What a rival solves and ferero does not."""
    header = ("goal", "start", "status", "violation", "gap", "evaluations", "solved by")
    rows = [
        [
            one["goal"],
            f"{one['start']}",
            one["status"] + (", local" if one["local"] else ""),
            _number(one, "violation", ".1e"),
            _number(one, "gap", ".1e"),
            f"{one['evaluations']}",
            ", ".join(one["by"]),
        ]
        for one in found
    ]
    return header, rows


def verdicts(rows: Sequence[Mapping[str, Any]]) -> Cells:
    """False verdicts by kind of random problem."""
    kinds: dict[str, list[str]] = {}
    for row in rows:
        if row["group"].startswith("verdicts, "):
            kinds.setdefault(row["group"].removeprefix("verdicts, "), []).append(f"{row['value']:g}")
            if row["note"].endswith("problems"):
                kinds[row["group"].removeprefix("verdicts, ")].insert(0, row["note"].split()[0])
    header = (
        "random problems",
        "how many",
        'false "converged"',
        'false "unattainable"',
        "answer not found",
        "another local solution",
    )
    return header, [[kind, *figures] for kind, figures in kinds.items()]


def show(result: dict[str, Any], console: Console) -> None:
    """Print everything: the comparison first, then where ferero fails, then the bars."""
    title = "ferero bench solver" + (" --quick" if result["quick"] else "") + f", {result['half']} half"
    _print(console, title, outcomes(result["cells"]))
    header, rows = failures(result["failures"])
    more = f" (the first {_MOST} of {len(rows)})" if len(rows) > _MOST else ""
    _print(console, f"Solved by a rival, not by ferero{more}", (header, rows[:_MOST]))
    _print(console, "Verdicts", verdicts(result["rows"]))
    show_rows(result, console)
    show_seconds(result, console)


def _print(console: Console, title: str, cells: Cells) -> None:
    header, rows = cells
    if not rows:
        return
    table = new_table(title)
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index < 2 else "right")
    for row in rows:
        table.add_row(*(cell.replace("[", "\\[") for cell in row))
    console.print(table)
