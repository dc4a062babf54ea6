"""A front as text that a person can read: one aligned row per preference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ferero.fronts._found import Found, account_of
from ferero.preference import Preference

if TYPE_CHECKING:
    from ferero.fronts._front import Front

__all__ = ["front_table", "preference_text"]

_WIDEST = 44


def front_table(front: Front[Found]) -> str:
    """The table: preference, losses, status, ray error where there are lines, violation where not all are.

    The seed stands behind the preference where there are several; evaluations come last, or steps if they
    are known.
    """
    account = account_of(front.results)
    is_line = [p.ray is not None for p in front.preferences]
    header = ["preference", *front.names, "status"]
    columns: list[Sequence[str]] = [
        [preference_text(p) for p in front.preferences],
        *([f"{value:.5g}" for value in column] for column in front.losses.T.tolist()),
        front.statuses,
    ]
    if len(set(account.get("seeds", ()))) > 1:
        header.insert(1, "seed")
        columns.insert(1, [str(seed) for seed in account["seeds"]])
    if any(is_line):
        header.append("ray error")
        errors = zip(is_line, front.ray_errors().tolist(), strict=True)
        columns.append([f"{_short(error)} deg" if line else "-" for line, error in errors])
    if not all(is_line):
        header.append("violation")
        columns.append([_short(value) for value in front.violations().tolist()])
    effort = "steps" if "steps" in account else "evaluations"
    if effort != "steps" or any(account["steps"]):
        header.append(effort)
        columns.append([str(count) for count in account[effort]])
    return _aligned(header, columns, left={"preference", "status"})


def preference_text(preference: Preference, widest: int = _WIDEST) -> str:
    """A single preference in one line of at most ``widest`` characters: its constraints, or its order."""
    order, *wanted = str(preference).splitlines()
    text = "; ".join(line.removeprefix("subject to").strip() for line in wanted) or order
    return text if len(text) <= widest else text[: widest - 3].rstrip() + "..."


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.0e}"


def _aligned(header: Sequence[str], columns: Sequence[Sequence[str]], left: set[str]) -> str:
    widths = [max(map(len, (name, *column))) for name, column in zip(header, columns, strict=True)]
    rows = [tuple(header), tuple("-" * width for width in widths), *zip(*columns, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if name in left else cell.rjust(width)
            for cell, width, name in zip(row, widths, header, strict=True)
        ).rstrip()
        for row in rows
    )
