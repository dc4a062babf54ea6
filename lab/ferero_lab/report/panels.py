"""What a figure shows, as plain data: drawn once for the page (plotly) and once for a paper (matplotlib).

An experiment describes, the two renderers draw, and what they must agree on is below the panels: `clean`, where a scale
is logarithmic, what a band shows there, where levels and columns lie. All numbers are floats, and NaN leaves a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isfinite, log, nan
from typing import Any, TypeAlias

import numpy as np

from ferero.errors import InputError

__all__ = [
    "Bars",
    "Curve",
    "FrontPanel",
    "FrontPoint",
    "Heat",
    "Level",
    "Lines",
    "Mark",
    "Panel",
    "Profile",
    "Segment",
    "Table",
    "band_of",
    "clean",
    "edges",
    "is_wide_heat",
    "labelled_levels",
    "rule_ends",
    "wants_log",
]

Vector: TypeAlias = Sequence[float]

_CLOSE = 0.08  # of the height of a panel: nearer than that two labels would touch
_MANY = 60  # lines over a matrix


@dataclass(frozen=True)
class FrontPoint:
    """One model or one run, in the space of its losses.

    Attributes:
        losses: (m,).
        group: what it belongs to, for its colour and the legend: a method, or a preference.
        label: what the reader sees first when hovering: the preference in words.
        details: further lines for hovering: weights, violation, seed, status.
        path: the trajectory of the losses, (T, m); empty for none.
        spread: standard deviation over seeds, (m,); empty for none.
        ok: False draws it hollow: it did not converge, or does not meet its preference.
        place: what it belongs to in the second place, for its marker: a preference, so that methods can be compared.
    """

    losses: Vector
    group: str
    label: str = ""
    details: dict[str, str] = field(default_factory=dict)
    path: Sequence[Vector] = ()
    spread: Vector = ()
    ok: bool = True
    place: str = ""


@dataclass(frozen=True)
class Segment:
    """The line of a preference, from one point to another, (m,) each: dashed. A ray begins in the origin."""

    begin: Vector
    end: Vector
    label: str = ""
    group: str = ""


@dataclass(frozen=True)
class FrontPanel:
    """Losses against each other: a plane for two, a space for three, parallel coordinates for more.

    Attributes:
        title: of the panel.
        names: of the losses, (m,).
        points: the models or runs.
        segments: the lines of the preferences.
        truth: points of the true front, (K, m); NaN rows leave gaps; empty for none.
        truth_label: what they are called, where they are no true front.
        from_zero: whether the axes begin at 0, where rays begin.
    """

    title: str
    names: Sequence[str]
    points: Sequence[FrontPoint]
    segments: Sequence[Segment] = ()
    truth: Sequence[Vector] = ()
    truth_label: str = "true front"
    from_zero: bool = True


@dataclass(frozen=True)
class Curve:
    """One curve: y (T,) over x (T,), with a band of +- spread (T,) unless empty."""

    x: Vector
    y: Vector
    label: str
    spread: Vector = ()
    dashed: bool = False


@dataclass(frozen=True)
class Level:
    """A height that matters, such as what a loss may be at most: a dashed line across, its label at the right end."""

    y: float
    label: str


@dataclass(frozen=True)
class Lines:
    """Curves over a common axis, and the levels that they are to be compared with."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    levels: Sequence[Level] = ()


@dataclass(frozen=True)
class Bars:
    """Groups of bars with error bars: values[g][s] of series s in group g; errors alike, or empty."""

    title: str
    y_label: str
    groups: Sequence[str]
    series: Sequence[str]
    values: Sequence[Vector]
    errors: Sequence[Vector] = ()


@dataclass(frozen=True)
class Profile:
    """Relative loss profiles: for each method and preference the losses over the ray, divided by their sum.

    On its ray a point has the value 1/m everywhere.

    Attributes:
        title: of the panel.
        names: of the losses, (m,).
        methods: one name each.
        profiles: profiles[method][preference], (m,) each.
    """

    title: str
    names: Sequence[str]
    methods: Sequence[str]
    profiles: Sequence[Sequence[Vector]]


@dataclass(frozen=True)
class Mark:
    """Something at a place of a matrix.

    Attributes:
        x: where, in the units of the columns.
        label: what it is.
        row: the row of a small marker, whose label is seen when hovering; None for a thin line through all rows with
            its label above the panel.
    """

    x: float
    label: str
    row: float | None = None


@dataclass(frozen=True)
class Heat:
    """A picture of a matrix: a spectrogram, an alignment. What is NaN stays blank.

    Attributes:
        title: of the panel.
        x_label: what the columns are.
        y_label: what the rows are.
        values: (rows, columns).
        x: the positions of the columns, increasing, (columns,); empty for 0, 1, ...
        rows: the names of the rows, (rows,); empty for their numbers.
        value_label: what the colours mean.
        marks: lines and markers on it.
        top_down: the first row is at the top, as one reads, not at the bottom.

    Raises:
        InputError: ``values`` is no matrix, or ``x`` or ``rows`` do not fit it.
    """

    title: str
    x_label: str
    y_label: str
    values: Sequence[Vector]
    x: Vector = ()
    rows: Sequence[str] = ()
    value_label: str = ""
    marks: Sequence[Mark] = ()
    top_down: bool = False

    def __post_init__(self) -> None:
        lengths = sorted({len(row) for row in self.values})
        if len(lengths) > 1:
            raise InputError(
                f"values: expected rows of one length, found {lengths[0]} to {lengths[-1]}; fill up with NaN."
            )
        columns = lengths[0] if lengths else 0
        if len(self.x) not in {0, columns}:
            raise InputError(f"x: expected one position for each of {columns} columns, found {len(self.x)}.")
        if not all(a < b for a, b in pairwise(self.x)):
            raise InputError("x: expected increasing positions, found some that are not; sort the columns.")
        if len(self.rows) not in {0, len(self.values)}:
            raise InputError(f"rows: expected one name for each of {len(self.values)} rows, found {len(self.rows)}.")


Panel: TypeAlias = FrontPanel | Lines | Bars | Profile | Heat


@dataclass(frozen=True)
class Table:
    """A table of measures: strings as they are to be read.

    Attributes:
        header: (columns,).
        rows: (rows, columns).
        title: above it.
        note: below it: what is compared with what, and how many seeds.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""


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


def _line(line: Curve) -> Curve:
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


def wants_log(panel: FrontPanel) -> bool:
    """Whether the losses of parallel coordinates, all on one scale, differ by orders of magnitude."""
    values = [loss for point in panel.points for loss in point.losses if isfinite(loss)]
    return bool(values) and min(values) > 0 and max(values) > 1e3 * min(values)


def band_of(line: Curve, *, log: bool) -> tuple[list[float], list[float]]:
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
