"""What a figure shows, as plain data: drawn once for the page (plotly) and once for a paper (matplotlib).

An experiment describes; the two renderers draw. All numbers are floats, and NaN leaves a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from ferero.errors import InputError

__all__ = [
    "Bars",
    "FrontPanel",
    "FrontPoint",
    "Heat",
    "Level",
    "Line",
    "Lines",
    "Mark",
    "Panel",
    "Profile",
    "Segment",
    "Table",
]

Vector: TypeAlias = Sequence[float]


@dataclass(frozen=True)
class FrontPoint:
    """One model or one run, in the space of its losses.

    Attributes:
        losses: (m,).
        group: what it belongs to, for its colour and the legend: a method, or a preference.
        label: what the reader sees first when hovering: the preference in words.
        details: further lines for hovering: weights, violation, seed, status.
        path: the losses on the way there, (T, m); empty for none.
        spread: standard deviation over seeds, (m,); empty for none.
        ok: False draws it hollow: it did not arrive.
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
    """What a preference wants, from one point to another, (m,) each: dashed. A ray begins in the origin."""

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
        points: what was found.
        segments: what was wanted.
        truth: points of the true front, (K, m); NaN rows leave gaps; empty for none.
        truth_label: what they are called, where they are no true front.
        from_zero: whether the axes begin at 0, which losses on a ray want to be seen from.
    """

    title: str
    names: Sequence[str]
    points: Sequence[FrontPoint]
    segments: Sequence[Segment] = ()
    truth: Sequence[Vector] = ()
    truth_label: str = "true front"
    from_zero: bool = True


@dataclass(frozen=True)
class Line:
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
    lines: Sequence[Line]
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
        marks: what is to be seen on it.
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
