"""A matrix as an interactive picture, with the marks on it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import floor, log10
from typing import Any

import numpy as np

from ferero_lab.report.panels import Heat, Mark, edges, is_wide_heat, rule_ends
from ferero_lab.report.plotly_frame import (
    PlotlyFigure,
    Spec,
    axis,
    heat_template,
    layout,
    meta,
    number,
    numbers,
    plain,
    plain_lines,
    thin_columns,
)
from ferero_lab.report.style import INK, PAPER, SOFT

__all__ = ["heat_graph"]

_ROW, _MOST_ROWS = 14, 60  # pixels for a row with a name, and how many names at most
_LINE = "rgba(255,255,255,0.55)"  # on the colours of the matrix, which are the same by day and by night


def heat_graph(panel: Heat) -> PlotlyFigure:
    """The panel as a figure.

    The page itself spreads the labels above it over three lines and leaves out those that find no room; all of them
    are read when hovering.
    """
    ends = edges(panel.x)
    lines = [mark for mark in panel.marks if mark.row is None and ends[0] <= mark.x <= ends[-1]]
    spots = [mark for mark in panel.marks if mark.row is not None]
    data = [_matrix(panel)]
    data += [_rules(lines, len(panel.values), panel.top_down)] if lines else []
    data += [_spots(spots)] if spots else []
    has_labels = any(mark.label for mark in lines)
    frame = layout(
        _height(panel) + (46 if has_labels else 0),
        margin={"l": 56, "r": 14, "t": 56 if has_labels else 10, "b": 44},
        xaxis=axis(panel.x_label, range=[ends[0], ends[-1]], showgrid=False),
        yaxis=_row_axis(panel),
        annotations=[_label(mark) for mark in lines if mark.label],
    )
    return PlotlyFigure(panel.title, data, frame, is_wide=is_wide_heat(panel))


def _height(panel: Heat) -> int:
    named = _ROW * min(len(panel.rows), _MOST_ROWS)
    return max(300, 70 + named)


def _matrix(panel: Heat) -> Spec:
    x, values = thin_columns(panel.x, panel.values)
    return {
        "type": "heatmap",
        "x": numbers(x.tolist()),
        "y": list(range(len(panel.values))),
        "z": _short(values),
        "colorscale": "Viridis",
        "hoverongaps": False,
        "hovertemplate": heat_template(panel),
        "showscale": bool(np.isfinite(values).any()),
        "colorbar": {
            "title": {"text": plain_lines(panel.value_label, 30), "side": "right", "font": {"color": INK.light}},
            "tickfont": {"color": INK.light},
            "tickcolor": SOFT.light,
            "outlinewidth": 0,
            "thickness": 12,
            "nticks": 6,
        },
        "meta": meta(),
    }


def _short(values: np.ndarray[Any, Any]) -> list[list[float | None]]:
    """Numbers of few digits, for there are many: a ten thousandth of their range is less than a shade of colour."""
    known = values[np.isfinite(values)]
    reach = float(known.max() - known.min()) if known.size else 0.0
    places = 4 - floor(log10(reach)) if reach > 0 else 7
    rounded = np.round(values, places) + 0.0
    return [[number(value) for value in row] for row in rounded.tolist()]


def _row_axis(panel: Heat) -> Spec:
    count = len(panel.values)
    ends = [count - 0.5, -0.5] if panel.top_down else [-0.5, count - 0.5]
    ticks: Spec = {}
    if len(panel.rows):
        shown = range(0, count, -(-count // _MOST_ROWS))
        names = [plain(panel.rows[r]) for r in shown]
        ticks = {"tickmode": "array", "tickvals": list(shown), "ticktext": names, "tickfont": {"size": 11}}
        ticks["labelalias"] = {str(r): plain(name) for r, name in enumerate(panel.rows)}  # when hovering
    return axis(panel.y_label, range=ends if count else [0, 1], showgrid=False, **ticks)


def _rules(marks: Sequence[Mark], count: int, top_down: bool) -> Spec:
    """All lines in one trace; pointing at the upper or lower end of one tells its label."""
    ends = rule_ends(count, len(marks), top_down)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(chain.from_iterable((mark.x, mark.x, None) for mark in marks)),
        "y": [*ends, None] * len(marks),
        "line": {"color": _LINE, "width": 1},
        "hoverinfo": "text",
        "hovertext": list(chain.from_iterable((plain(mark.label),) * 2 + ("",) for mark in marks)),
        "meta": meta(),
    }


def _spots(marks: Sequence[Mark]) -> Spec:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [mark.x for mark in marks],
        "y": [mark.row for mark in marks],
        "marker": {"color": PAPER.light, "size": 5, "line": {"color": INK.light, "width": 1}},
        "hoverinfo": "text",
        "hovertext": [plain(mark.label) for mark in marks],
        "meta": meta(),
    }


def _label(mark: Mark) -> Spec:
    place: Spec = {"xref": "x", "x": mark.x, "yref": "paper", "y": 1, "yanchor": "bottom"}
    return {
        "name": "mark",
        "text": plain(mark.label),
        "showarrow": False,
        "font": {"size": 11},
        "borderpad": 0,
        **place,
    }
