"""Words and numbers for plotly, which reads its texts as HTML and its numbers as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from textwrap import wrap

from ferero_lab.report.panels import FrontPoint, Heat, Line, Segment

__all__ = [
    "bar_text",
    "heat_template",
    "line_template",
    "number",
    "numbers",
    "plain",
    "plain_lines",
    "point_text",
    "segment_text",
]

_WIDEST = 56  # characters; a phone shows no more


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
        lines.append("<i>did not arrive</i>")
    return "<br>".join(lines)


def segment_text(segment: Segment) -> str:
    """What is shown at the end of what was wanted."""
    return "<br>".join(_bold(segment.label or segment.group or "wanted"))


def line_template(line: Line, x_label: str, y_label: str) -> str:
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
