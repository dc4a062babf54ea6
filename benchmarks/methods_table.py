"""Writes the tables of docs/methods.md from benchmarks/results: ``.venv/bin/python benchmarks/methods_table.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pages import fill

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/methods.md"
FAMILIES = {"normal": "N(0, 1), on the plateau", "easy": "U[-0.3, 0.3]", "hard": "near one end of the front"}

Rows = list[dict[str, Any]]


def read() -> Rows:
    """The rows of all results of record about methods."""
    names = ("methods.json", "methods-step-h200.json")
    return [row for name in names for row in json.loads((RESULTS / name).read_text(encoding="utf-8"))["rows"]]


def claims_table(rows: Rows) -> str:
    """One line for each claim, one column for each method."""
    found: dict[str, dict[str, bool]] = {}
    for row in rows:
        if row["group"] == "claims":
            method, claim = row["measure"].split(": ")
            found.setdefault(claim, {})[method] = bool(row["value"])
    methods = list(next(iter(found.values())))
    lines = [f"| | {' | '.join(methods)} |", "|---|" + "---|" * len(methods)]
    for claim, by_method in found.items():
        lines.append(f"| {claim} | {' | '.join('yes' if by_method[name] else '-' for name in methods)} |")
    return "\n".join([*lines, ""])


def rays_table(rows: Rows) -> str:
    """Every method on the same rays, for each family of starts."""
    parts = []
    for family, words in FAMILIES.items():
        found: dict[str, dict[str, float]] = {}
        for row in rows:
            if row["group"] == f"two objectives, {family}":
                method, measure = row["measure"].rsplit(": ", 1)
                found.setdefault(method, {})[measure] = row["value"]
        lines = [f"Starts {words}:", ""]
        lines += [
            "| method | reached | on the front | error, degrees | evaluations until there | ms, judging included |"
        ]
        lines += ["|---|---|---|---|---|---|"]
        for method, values in sorted(found.items(), key=lambda item: -item[1]["reached"]):
            numbers = [f"{values['reached']:.0%}", f"{values['on the front']:.0%}"]
            numbers.append(f"{values['ray error in degrees, median']:.2g}")
            numbers += [
                f"{values[name]:.3g}" if name in values else ""
                for name in ("evaluations until there, median", "milliseconds until there, median")
            ]
            lines.append(f"| {method} | {' | '.join(numbers)} |")
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


def bars_table(rows: Rows) -> str:
    """Everything that has a bar, the missed ones too."""
    lines = ["| | measured | bar | |", "|---|---|---|---|"]
    for row in rows:
        if row["bar"] is not None:
            mark = "" if row["passed"] else "**missed**"
            lines.append(f"| {row['group']}: {row['measure']} | {row['value']:.3g} | {row['bar']:g} | {mark} |")
    return "\n".join([*lines, ""])


def learned_table(rows: Rows) -> str:
    """The learned gramian beside the exact one and the plain single loop, one line for each case."""
    found: dict[str, dict[str, float | None]] = {}
    for row in rows:
        if row["group"] == "learned gramian":
            case, method = row["measure"].removesuffix(", degrees").split(": ", 1)
            found.setdefault(case, {})[method] = row["value"]
    methods = list(next(iter(found.values())))
    lines = [f"| degrees, median | {' | '.join(methods)} |", "|---|" + "---|" * len(methods)]
    for case, by_method in found.items():
        lines.append(f"| {case} | {' | '.join(_degrees(by_method[name]) for name in methods)} |")
    return "\n".join([*lines, ""])


def _degrees(value: float | None) -> str:
    return "diverges" if value is None else f"{value:.2g}"  # JSON has no word for infinite


TABLES = {"claims": claims_table, "rays": rays_table, "bars": bars_table, "learned": learned_table}


def filled(text: str, rows: Rows) -> str:
    """The page with every table between its marks."""
    for name, make in TABLES.items():
        text = fill(text, name, make(rows))
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
