"""What `ferero bench tasks` found, as tables: plain cells of text, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rich.console import Console

from ferero.cli import new_table
from ferero_lab.bench.measure import show_rows, show_seconds
from ferero_lab.bench.tasks.extremes import BARS

__all__ = ["Cells", "comparison", "extremes", "missed", "parts", "show", "show_summary", "show_variants", "variants"]

Cells: TypeAlias = tuple[tuple[str, ...], list[list[str]]]
"""A header, and rows of as many cells."""

Summary: TypeAlias = Mapping[str, Any]
"""As `summarise` gives it."""

MOST = 25
"""Missed cells that a terminal shows; the file has them all."""


def comparison(summary: Summary) -> Cells:
    """Ferero beside the best setting of each rule; the table that the README shows."""
    header = ("", "setting", "met", "regret, median", "90 %", "speed, median", "chosen on the tune half: met")
    rows = [["**ferero**", "default", *_figures(summary["ferero"]), "-"]]
    for rule in summary["rules"]:
        chosen = rule["chosen"]
        rows.append(
            [rule["rule"], rule["setting"], *_figures(rule), "-" if chosen is None else _percent(chosen["share"])]
        )
    return header, rows


def parts(entries: Sequence[Mapping[str, Any]], name: str) -> Cells:
    """Ferero by family or by form, with the best single rival setting beside it."""
    header = (name, "attainable", "met", "best rival", "regret, median", "90 %", "speed")
    rows = [
        [one["name"], f"{one['cells']}", f"{one['met']}", f"{one['best_met']}", *_figures(one)[1:]] for one in entries
    ]
    return header, rows


def missed(summary: Summary) -> Cells:
    """The cells that a rival meets and ferero does not."""
    header = ("task", "form", "seed", "violation, mean", "worst", "verdict", "rivals that meet it")
    rows = [
        [one["task"], one["form"], f"{one['seed']}", _number(one["mean"]), _number(one["worst"]), one["status"],
         f"{one['rivals_that_meet']}"]
        for one in summary["missed"]
    ]  # fmt: skip
    return header, rows


def extremes(lines: Sequence[Mapping[str, Any]]) -> Cells:
    """Starts, outliers and bounds out of the ordinary."""
    header = ("", "task", "", "ferero", "dual", "bar", "objective: ferero", "dual", "verdict")
    rows = []
    for one in lines:
        kind, ours, theirs = one["extreme"], one["ours"], one["theirs"]
        bar = BARS[kind]
        objectives = [_number(who["objective"]) for who in (ours, theirs)]
        said = [ours["status"] if ours["finite"] else "diverged"]
        values = [_or_never(ours["value"]), "-" if kind == "unattainable" else _or_never(theirs["value"])]
        form = "" if one["form"] in ("as it is", "unattainable") else one["form"]
        rows.append([kind, one["task"], form, *values, f"{bar:g}{_UNITS[kind]}", *objectives, *said])
    return header, rows


def variants(entries: Sequence[Mapping[str, Any]]) -> Cells:
    """Half and twice of each constant, and what each mechanism is worth."""
    header = ("", "met", "regret, median", "90 %", "speed, median")
    return header, [[one["title"], *_figures(one)] for one in entries]


def show(result: dict[str, Any], console: Console) -> None:
    """Print everything: the comparison first, then where it fails, then the bars."""
    title = "ferero bench tasks" + (" --quick" if result["quick"] else "")
    show_summary(result["summary"], title, console)
    _print(console, "Out of the ordinary", extremes(result["extremes"]))
    show_variants(result["variants"], console)
    show_rows(result, console)
    show_seconds(result, console)


def show_summary(summary: Summary, title: str, console: Console) -> None:
    """Print the comparison, the families, the forms and what is missed."""
    told = f"{title}: {summary['attainable']} of {summary['cells']} cells are met by a rival"
    _print(console, told, comparison(summary))
    _print(console, "By family", parts(summary["families"], "family"))
    _print(console, "By form", parts(summary["forms"], "form"))
    header, rows = missed(summary)
    more = f" (the first {MOST} of {len(rows)})" if len(rows) > MOST else ""
    _print(console, f"Missed{more}", (header, rows[:MOST]))


def show_variants(entries: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print the variants, if there are any."""
    _print(console, "Constants and mechanisms of FereroPI", variants(entries))


_UNITS = {"far start": " degrees", "outlier": " steps", "unattainable": " steps"}
_WORDS = {"", "setting", "family", "form", "task", "verdict"}


def _print(console: Console, title: str, cells: Cells) -> None:
    header, rows = cells
    if not rows:
        return
    table = new_table(title)
    for name in header:
        table.add_column(name, justify="left" if name in _WORDS else "right")
    for row in rows:
        table.add_row(*(cell.replace("**", "").replace("[", "\\[") for cell in row))
    console.print(table)


def _figures(one: Mapping[str, Any]) -> list[str]:
    met = "-" if one["share"] is None else f"{_percent(one['share'])} ({one['met']} of {one['cells']})"
    return [met, _number(one["regret"]), _number(one["regret_90"]), _number(one["speed"])]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _or_never(value: float | None) -> str:
    return "never" if value is None else _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if 100 <= abs(value) < 1e5 else f"{value:.2g}"
