"""Losses against each other, for a paper: a plane, a space, or parallel coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ferero.plot.style import BOLD, DOT, LINE, THIN
from ferero_lab.report.look import INK, PALE, PAPER, SOFT, Look
from ferero_lab.report.panels import FrontPanel, FrontPoint
from ferero_lab.report.paper_words import paper_lines, paper_text
from ferero_lab.report.scales import wants_log

__all__ = ["draw_front"]

_DASHES = (0, (5, 3))


def draw_front(ax: Any, panel: FrontPanel, look: Look) -> None:
    """Draws the panel on axes, which are three-dimensional for three losses."""
    if len(panel.names) in {2, 3}:
        _draw_space(ax, panel, look)
    else:
        _draw_parallel(ax, panel, look)


def _draw_space(ax: Any, panel: FrontPanel, look: Look) -> None:
    m = len(panel.names)
    _draw_truth(ax, panel, m)
    for segment in panel.segments:
        ends = np.array([segment.end, segment.begin], dtype=float)  # from outside: dashes in step would make rings
        color = look.tone(segment.group).light if look.knows(segment.group) else SOFT.light
        ax.plot(*ends.T, color=color, linewidth=THIN, linestyle=_DASHES, alpha=0.7, zorder=1.4)
    for point in panel.points:
        if len(point.path):
            path = np.asarray(point.path, dtype=float)
            ax.plot(*path.T, color=look.tone(point.group).light, linewidth=0.8, alpha=0.55, zorder=2)
    for point in panel.points:
        _draw_point(ax, point, look, m)
    names = [paper_lines(name, 30) for name in panel.names]
    ax.set(**dict(zip(("xlabel", "ylabel", "zlabel"), names, strict=False)))
    if m == 2 and panel.from_zero:
        _begin_at_zero(ax)


def _begin_at_zero(ax: Any) -> None:
    """Losses are read from zero, unless some are below it."""
    if ax.dataLim.x0 >= 0:
        ax.set_xlim(left=0)
    if ax.dataLim.y0 >= 0:
        ax.set_ylim(bottom=0)


def _draw_truth(ax: Any, panel: FrontPanel, m: int) -> None:
    if not len(panel.truth):
        return
    rows = np.asarray(panel.truth, dtype=float)
    if m == 3:
        ax.scatter(*rows.T, s=1.5, linewidth=0, color=PALE.light, depthshade=False, zorder=1.2)
        return
    curve = rows if np.isnan(rows).any() else rows[np.lexsort(rows.T[::-1])]
    ax.plot(*curve.T, color=PALE.light, linewidth=BOLD, solid_capstyle="round", zorder=1.2)


def _draw_point(ax: Any, point: FrontPoint, look: Look, m: int) -> None:
    tone, spot = look.tone(point.group).light, np.asarray(point.losses, dtype=float)
    if not np.isfinite(spot).all():
        return
    if len(point.spread):
        reach = np.nan_to_num(np.asarray(point.spread, dtype=float))
        bars = dict(zip(("xerr", "yerr", "zerr"), reach, strict=False))
        ax.errorbar(*spot, **bars, fmt="none", ecolor=tone, elinewidth=THIN, capsize=1.5, zorder=3)
    ax.scatter(
        *spot[:, None],
        s=0.65 * DOT,
        marker=look.mark(point.place).paper,
        facecolor=tone if point.ok else PAPER.light,
        edgecolor=PAPER.light if point.ok else tone,
        linewidth=0.4 if point.ok else 0.9,
        zorder=4,
        clip_on=False,
        **({"depthshade": False} if m == 3 else {}),
    )


def _draw_parallel(ax: Any, panel: FrontPanel, look: Look) -> None:
    places = np.arange(len(panel.names))
    for x in places:
        ax.axvline(x, color=PALE.light, linewidth=THIN, zorder=0.5)
    for row in panel.truth:
        ax.plot(places, row, color=PALE.light, linewidth=0.4, alpha=0.4, zorder=1)
    for segment in panel.segments:
        color = look.tone(segment.group).light if look.knows(segment.group) else SOFT.light
        ax.plot(places, segment.end, color=color, linewidth=THIN, linestyle=_DASHES, alpha=0.7, zorder=1.5)
    for point in panel.points:
        tone = look.tone(point.group).light
        ax.errorbar(
            places,
            point.losses,
            yerr=point.spread if len(point.spread) else None,
            color=tone,
            elinewidth=THIN,
            capsize=1.5,
            linewidth=0.8 * LINE,
            linestyle="-" if point.ok else "--",
            alpha=0.85,
            marker=look.mark(point.place).paper,
            markersize=3.6,
            markerfacecolor=tone if point.ok else PAPER.light,
            zorder=2,
        )
    _name_places(ax, panel.names, places)
    ax.set(xlim=(-0.3, len(places) - 0.7), ylabel="loss")
    if wants_log(panel):
        ax.set_yscale("log")


def _name_places(ax: Any, names: Sequence[str], places: Any) -> None:
    ax.set_xticks(places, [paper_text(name) for name in names], color=INK.light)
