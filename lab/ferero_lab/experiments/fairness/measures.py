"""The figures of record of the fairness experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

from ferero_lab.experiments.experiment import Found
from ferero_lab.experiments.fairness.plan import DRIVING
from ferero_lab.experiments.fairness.training import PARTS

__all__ = ["Measured", "excess_over", "measure", "violation"]

Measured = list[dict[str, Any]]
"""For each bound or weight: "asked", "diverged", and by part and figure a pair of mean and standard deviation."""


def measure(found: Found) -> Measured:
    """Means and standard deviations over seeds, in the order asked for; models that diverged are left out of them."""
    rows = []
    for asked in dict.fromkeys(run["asked"] for run in found["runs"]):
        runs = [run for run in found["runs"] if run["asked"] == asked]
        kept = [run for run in runs if run["status"] != "diverged"]
        row: dict[str, Any] = {"asked": asked, "models": len(runs), "diverged": len(runs) - len(kept)}
        for part in PARTS:
            row[part] = {
                name: _spread([run["measured"][part][name] for run in kept]) for name in runs[0]["measured"][part]
            }
        rows.append(row)
    return rows


def violation(method: str, found: Found, part: str | None = None) -> float:
    """By how much the gap exceeds what was asked, at most over bounds and seeds; 0 where it never does.

    Args:
        method: one of `DRIVING`.
        found: what its part gave.
        part: on which people; None for those that drive the constraint.
    """
    driving, figure = DRIVING[method]
    beyond: list[float] = [_gap(run["measured"][part or driving][figure]) - run["asked"] for run in found["runs"]]
    return max(0.0, *beyond)


def excess_over(rows: Measured, front: Measured, figure: str = "log_loss", gap: str = "gap") -> list[float | None]:
    """How far each point lies above the line through another front's points, on test people, at the same gap.

    Returns:
        One number a row; None outside the other front's gaps.
    """
    line = sorted((row["test"][gap][0], row["test"][figure][0]) for row in front)
    return [_above(line, row["test"][gap][0], row["test"][figure][0]) for row in rows]


def _above(line: Sequence[tuple[float, float]], x: float, y: float) -> float | None:
    for (x0, y0), (x1, y1) in pairwise(line):
        if x0 <= x <= x1 and x1 > x0:
            return y - (y0 + (y1 - y0) * (x - x0) / (x1 - x0))
    return None


def _gap(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value


def _spread(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return math.nan, math.nan
    return fmean(values), stdev(values) if len(values) > 1 else 0.0
