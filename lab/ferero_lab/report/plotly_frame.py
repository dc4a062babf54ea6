"""What all interactive panels have in common: their axes, their margins, and plain data for plotly.

Figures are dictionaries as plotly.js reads them, in the colours of a light page; the page exchanges the colours
by night. Each trace says in ``meta`` which entries of the legend it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ferero_lab.report.hover import plain_lines
from ferero_lab.report.look import GRID, INK, PAPER, SOFT

__all__ = ["FONT", "Graph", "axis", "layout", "meta"]

Spec: TypeAlias = dict[str, Any]

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


@dataclass(frozen=True)
class Graph:
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
