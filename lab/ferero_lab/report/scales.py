"""What the page and the paper must agree on: where a scale is logarithmic, what a band shows there, what levels."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite, log

from ferero_lab.report.panels import FrontPanel, Heat, Level, Line, Lines, Vector

__all__ = ["band_of", "edges", "is_wide_heat", "labelled_levels", "rule_ends", "wants_log"]

_CLOSE = 0.08  # of the height of a panel: nearer than that two labels would touch
_MANY = 60  # lines over a matrix


def wants_log(panel: FrontPanel) -> bool:
    """Whether the losses of parallel coordinates, all on one scale, differ by orders of magnitude."""
    values = [loss for point in panel.points for loss in point.losses if isfinite(loss)]
    return bool(values) and min(values) > 0 and max(values) > 1e3 * min(values)


def band_of(line: Line, *, log: bool) -> tuple[list[float], list[float]]:
    """The lower and the upper edge, (T,) each; on a logarithmic scale the lower one ends at a tenth of the curve."""
    pairs = list(zip(line.y, line.spread, strict=True))
    low = [y - s if not log or y - s > y / 10 else y / 10 for y, s in pairs]
    return low, [y + s for y, s in pairs]


def labelled_levels(panel: Lines) -> list[tuple[Level, float]]:
    """The levels that can be drawn, from the lowest, each with how far its label moves up, in heights of the panel.

    Labels that would touch each other make room. On a logarithmic scale there is nothing at 0 and below.
    """
    levels = sorted((x for x in panel.levels if x.y > 0 or not panel.log_y), key=lambda level: level.y)
    heights = [y for line in panel.lines for y in line.y if isfinite(y) and (y > 0 or not panel.log_y)]
    known = [_height(y, panel) for y in [*heights, *(level.y for level in levels)]]
    reach = (max(known, default=0.0) - min(known, default=0.0)) or 1.0
    spots = [_height(level.y, panel) / reach for level in levels]
    return [(level, moved - spot) for level, moved, spot in zip(levels, _apart(spots), spots, strict=True)]


def _apart(spots: Vector) -> list[float]:
    """Increasing places that are not too close to each other, moved as little as that takes."""
    moved = list(spots)
    for _ in range(20 * len(moved)):
        for i in range(len(moved) - 1):
            push = max(_CLOSE - (moved[i + 1] - moved[i]), 0.0) / 2
            moved[i], moved[i + 1] = moved[i] - push, moved[i + 1] + push
    return moved


def _height(y: float, panel: Lines) -> float:
    return log(y) if panel.log_y else y


def edges(x: Vector) -> list[float]:
    """Where the columns of a matrix begin and end, (columns + 1,): halfway between their positions (columns,)."""
    if len(x) < 2:
        middle = x[0] if len(x) else 0.0
        return [middle - 0.5, middle + 0.5]
    inner = [(a + b) / 2 for a, b in pairwise(x)]
    return [x[0] - (inner[0] - x[0]), *inner, x[-1] + (x[-1] - inner[-1])]


def rule_ends(rows: int, rules: int, top_down: bool) -> tuple[float, float]:
    """From where to where the lines of marks run: through all rows, or where many would hide them, the upper tenth."""
    low, high = (rows - 0.5, -0.5) if top_down else (-0.5, rows - 0.5)
    return (high - 0.1 * (high - low) if rules > _MANY else low), high


def is_wide_heat(panel: Heat) -> bool:
    """Whether a matrix takes the whole width: many columns, or many labels above them."""
    columns = len(panel.values[0]) if len(panel.values) else 0
    return columns > 40 or sum(mark.row is None for mark in panel.marks) > 12
