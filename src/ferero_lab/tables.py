"""Answers as rows of text, and as a table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from ferero_lab.report import Answer

__all__ = ["answer_rows", "answer_table", "new_table", "status_text"]

_SHORT = {"evaluations": "evals"}  # the table must fit into eighty columns
_STYLES = {"converged": "green", "unattainable": "yellow"}


def answer_rows(answers: Sequence[Answer]) -> tuple[list[str], list[list[str]]]:
    """The header and one row per answer: preference, losses, ray error, status, evaluations, milliseconds."""
    names = answers[0].result.preference.names
    header = ["preference", *names, "ray error", "status", "evaluations", "ms"]
    rows = [
        [
            answer.asked,
            *(f"{value:.4f}" for value in answer.losses.values()),
            "-" if answer.ray_error is None else f"{_short(answer.ray_error)}°",
            answer.result.status,
            str(answer.result.evaluations),
            f"{answer.milliseconds:.1f}",
        ]
        for answer in answers
    ]
    return header, rows


def answer_table(answers: Sequence[Answer], title: str) -> Table:
    """The rows for a terminal."""
    header, rows = answer_rows(answers)
    table = new_table(title)
    for name in header:
        is_words = name in {"preference", "status"}
        words = _SHORT.get(name, name)
        table.add_column(words, justify="left" if is_words else "right", no_wrap=name != "preference")
    for row in rows:
        table.add_row(
            *(status_text(cell) if name == "status" else Text(cell) for name, cell in zip(header, row, strict=True))
        )
    return table


def new_table(title: str | None = None) -> Table:
    """An empty table in the lab's style."""
    look = {"title_justify": "left", "title_style": "bold", "box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0)}
    return Table(title=title, pad_edge=False, **look)  # type: ignore[arg-type]


def status_text(status: str) -> Text:
    """A run's status in its colour."""
    return Text(status, style=_STYLES.get(status, "red"))


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.0e}"
