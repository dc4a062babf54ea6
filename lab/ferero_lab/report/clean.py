"""Numbers that can be drawn: what is missing or not finite becomes NaN, a gap, before anything else looks at it.

A run that was kept as JSON and read again has None where it had NaN.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import isfinite, nan
from typing import Any

import numpy as np

from ferero_lab.report.panels import Bars, FrontPanel, FrontPoint, Heat, Line, Lines, Panel

__all__ = ["clean"]


def clean(panel: Panel) -> Panel:
    """The panel with floats alone, each finite or NaN."""
    if isinstance(panel, FrontPanel):
        segments = [replace(s, begin=_row(s.begin), end=_row(s.end)) for s in panel.segments]
        points = [_point(point) for point in panel.points]
        return replace(panel, points=points, segments=segments, truth=_rows(panel.truth))
    if isinstance(panel, Lines):
        levels = [level for level in panel.levels if _is_known(level.y)]
        return replace(panel, lines=[_line(line) for line in panel.lines], levels=levels)
    if isinstance(panel, Bars):
        return replace(panel, values=_rows(panel.values), errors=_rows(panel.errors))
    if isinstance(panel, Heat):
        return _heat(panel)
    return replace(panel, profiles=[_rows(profiles) for profiles in panel.profiles])


def _point(point: FrontPoint) -> FrontPoint:
    return replace(point, losses=_row(point.losses), path=_rows(point.path), spread=_row(point.spread))


def _line(line: Line) -> Line:
    return replace(line, x=_row(line.x), y=_row(line.y), spread=_row(line.spread))


def _heat(panel: Heat) -> Heat:
    """All at once: a spectrogram has a hundred thousand values."""
    values = np.array([np.asarray(row, dtype=float) for row in panel.values])
    marks = [mark for mark in panel.marks if _is_known(mark.x) and (mark.row is None or _is_known(mark.row))]
    columns = len(panel.values[0]) if len(panel.values) else 0
    x = _row(panel.x) if len(panel.x) else [float(i) for i in range(columns)]
    return replace(panel, values=np.where(np.isfinite(values), values, nan).tolist(), x=x, marks=marks)


def _is_known(value: float | None) -> bool:
    return value is not None and isfinite(value)


def _rows(rows: Iterable[Any]) -> list[list[float]]:
    return [_row(row) for row in rows]


def _row(values: Iterable[Any]) -> list[float]:
    return [float(value) if value is not None and isfinite(value) else nan for value in values]
