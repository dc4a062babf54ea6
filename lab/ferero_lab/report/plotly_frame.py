"""What all interactive panels have in common: axes and margins, texts and numbers as plotly reads them, fewer points.

Figures are dictionaries as plotly.js reads them, in the colours of a light page; the page exchanges the colours
by night. Each trace says in ``meta`` which entries of the legend it belongs to. Texts are HTML and numbers JSON. Where
a screen cannot show all points, fewer are written: a page must stay small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any, TypeAlias

import numpy as np

from ferero_lab.report.panels import Curve, FrontPoint, Heat, Segment
from ferero_lab.report.style import GRID, INK, PAPER, SOFT

__all__ = [
    "FONT",
    "PlotlyFigure",
    "axis",
    "bar_text",
    "heat_template",
    "layout",
    "line_template",
    "meta",
    "number",
    "numbers",
    "plain",
    "plain_lines",
    "point_text",
    "segment_text",
    "thin_columns",
    "thin_curve",
    "thin_path",
]

Spec: TypeAlias = dict[str, Any]

_WIDEST = 56  # characters; a phone shows no more
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


@dataclass(frozen=True)
class PlotlyFigure:
    """An interactive figure.

    Attributes:
        title: above it.
        data: traces.
        layout: of the figure; its height is fixed and its width that of the page's column.
        is_wide: it takes the whole width of the page.
    """

    title: str
    data: list[Spec]
    layout: Spec
    is_wide: bool = False


def meta(group: str = "", place: str = "", role: str = "") -> Spec:
    """The entries of the legend that show and hide a trace."""
    return {"group": group, "place": place, "role": role}


def axis(title: str = "", *, log: bool = False, **more: Any) -> Spec:
    """One axis of a plane."""
    return {
        "type": "log" if log else "linear",
        "exponentformat": "power",
        "title": {"text": plain_lines(title, 38), "standoff": 8},
        "color": INK.light,
        "gridcolor": GRID.light,
        "linecolor": SOFT.light,
        "tickcolor": SOFT.light,
        "ticks": "outside",
        "ticklen": 4,
        "showline": True,
        "zeroline": False,
        "automargin": True,
        **more,
    }


def layout(height: int, **more: Any) -> Spec:
    """All that is not data: ``more`` holds the axes."""
    return {
        "height": height,
        "margin": {"l": 52, "r": 14, "t": 10, "b": 44},
        "paper_bgcolor": PAPER.light,
        "plot_bgcolor": PAPER.light,
        "font": {"family": FONT, "size": 12, "color": INK.light},
        "hovermode": "closest",
        "hoverdistance": 12,
        "hoverlabel": {
            "align": "left",
            "bgcolor": PAPER.light,
            "bordercolor": SOFT.light,
            "font": {"family": FONT, "size": 12, "color": INK.light},
        },
        "showlegend": False,
        **more,
    }


def plain(text: str) -> str:
    """Text that plotly shows as it is, on one line.

    Quotes stay: plotly does not know their entities. Braces go, for they open a template.
    """
    return escape(" ".join(text.split()), quote=False).replace("{", "&#123;")


def plain_lines(text: str, width: int) -> str:
    """The same, in lines of that many characters; no word is cut."""
    return "<br>".join(plain(line) for line in wrap(text, width, break_long_words=False))


def number(value: float) -> float | None:
    """Seven digits of it; None, a gap, where it is not finite."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def numbers(values: Iterable[float]) -> list[float | None]:
    """`number` of each."""
    return [number(value) for value in values]


def point_text(point: FrontPoint, names: Sequence[str]) -> str:
    """What is shown beside a point: its preference, its group, its losses by name, and all its details."""
    lines = _bold(point.label or point.place or point.group)
    if point.group and point.group != point.label:
        lines += _wrapped(point.group)
    for i, (name, loss) in enumerate(zip(names, point.losses, strict=True)):
        spread = f" \u00b1 {point.spread[i]:.2g}" if len(point.spread) else ""
        lines += _wrapped(f"{name}: {loss:.4g}{spread}")
    for key, value in point.details.items():
        lines += _wrapped(f"{key}: {value}")
    if not point.ok:
        lines.append("<i>not met</i>")
    return "<br>".join(lines)


def segment_text(segment: Segment) -> str:
    """What is shown at the end of a preference's line."""
    return "<br>".join(_bold(segment.label or segment.group or "preference"))


def line_template(line: Curve, x_label: str, y_label: str) -> str:
    """What is shown beside a curve, for plotly to fill in."""
    spread = " \u00b1 %{customdata:.2g}" if len(line.spread) else ""
    values = [f"{plain(x_label)}: %{{x:.5~g}}", f"{plain(y_label)}: %{{y:.4g}}{spread}"]
    return "<br>".join([*_bold(line.label), *values]) + "<extra></extra>"


def heat_template(panel: Heat) -> str:
    """What is shown beside a value of a matrix, for plotly to fill in."""
    lines = [
        f"{plain(panel.x_label or 'column')}: %{{x:.4~g}}",
        f"{plain(panel.y_label or 'row')}: %{{y}}",
        f"<b>{plain(panel.value_label or 'value')}: %{{z:.4~g}}</b>",
    ]
    return "<br>".join(lines) + "<extra></extra>"


def bar_text(title: str, group: str, value: float, error: float | None = None) -> str:
    """What is shown beside a bar."""
    spread = "" if error is None or not math.isfinite(error) else f" \u00b1 {error:.2g}"
    return "<br>".join([*_bold(title), *_wrapped(f"{group}: {value:.4g}{spread}")])


def _bold(text: str) -> list[str]:
    return [f"<b>{line}</b>" for line in _wrapped(text)]


def _wrapped(text: str) -> list[str]:
    return [plain(line) for line in wrap(text, _WIDEST)]


def thin_path(points: Any, most: int = 120) -> np.ndarray[Any, Any]:
    """The rows of a path that matter for its shape: even steps along its length, with both ends.

    Args:
        points: (T, m); lengths are measured in units of each column's range.
        most: rows to keep.

    Returns:
        (at most ``most``, m).
    """
    rows = np.asarray(points, dtype=float)
    if len(rows) <= most:
        return rows
    known = np.isfinite(rows)
    reach = np.where(known, rows, -np.inf).max(axis=0) - np.where(known, rows, np.inf).min(axis=0)
    steps = np.where(known[1:] & known[:-1], np.abs(np.diff(np.where(known, rows, 0.0), axis=0)), 0.0)
    length = np.concatenate([[0.0], np.cumsum((steps / np.where(reach > 0, reach, 1.0)).sum(axis=1))])
    if length[-1] == 0:
        return rows[[0, -1]]
    chosen = np.searchsorted(length, np.linspace(0.0, length[-1], most), side="left")
    chosen[-1] = len(rows) - 1
    return rows[np.unique(chosen)]


def thin_curve(x: Any, y: Any, *, log: bool = False, buckets: int = 300) -> np.ndarray[Any, Any]:
    """The indices of a curve that keep its envelope and its gaps.

    Of each of many buckets the lowest and the highest point stay, and of each gap its first point.

    Args:
        x: (T,).
        y: (T,).
        log: buckets are even in log x.
        buckets: how many; at most twice as many points are kept, besides gaps and the two ends.

    Returns:
        Indices in order.
    """
    across, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(across) <= 2 * buckets:
        return np.arange(len(across))
    if log:
        across = np.log(np.where(across > 0, across, np.nan))
    known = np.isfinite(across) & np.isfinite(values)
    if not known.any():
        return np.array([0, len(across) - 1])
    low, high = across[known].min(), across[known].max()
    which = np.zeros(len(across), dtype=int)
    if high > low:
        which[known] = np.minimum((across[known] - low) / (high - low) * buckets, buckets - 1).astype(int)
    gaps = np.flatnonzero(~known & np.concatenate([[True], known[:-1]]))
    keep = {0, len(across) - 1, *gaps.tolist()}
    for bucket in np.unique(which[known]):
        members = np.flatnonzero(known & (which == bucket))
        keep |= {int(members[values[members].argmin()]), int(members[values[members].argmax()])}
    return np.array(sorted(keep))


def thin_columns(x: Any, values: Any, most: int = 600) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A matrix with fewer columns: neighbours become their mean, over what is known of them.

    Args:
        x: positions of the columns, (T,).
        values: (rows, T).
        most: columns to keep.

    Returns:
        Positions (t,) and values (rows, t), t at most ``most``; NaN where nothing is known.
    """
    across, matrix = np.asarray(x, dtype=float), np.asarray(values, dtype=float)
    if len(across) <= most:
        return across, matrix
    starts = np.arange(0, len(across), -(-len(across) // most))
    known = np.isfinite(matrix)
    counts = np.add.reduceat(known, starts, axis=1, dtype=float)
    sums = np.add.reduceat(np.where(known, matrix, 0.0), starts, axis=1)
    sizes = np.diff(np.append(starts, len(across)))
    return np.add.reduceat(across, starts) / sizes, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
