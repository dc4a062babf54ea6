"""The panels of a section as one figure for a paper: rows of up to three, one legend below all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ferero.plot.style import BOLD, DASHES, DOT, LINE, THIN, drawing, require_pyplot
from ferero_lab.report.panels import (
    Bars,
    FrontPanel,
    FrontPoint,
    Heat,
    Lines,
    Panel,
    Profile,
    band_of,
    clean,
    is_wide_heat,
    labelled_levels,
    wants_log,
)
from ferero_lab.report.paper_heat import draw_heat, heat_height
from ferero_lab.report.paper_words import families, paper_lines, paper_text
from ferero_lab.report.style import INK, PALE, PAPER, SOFT, Key, Palette, legend_keys, text_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["section_figure"]

_COLUMNS = 3
_WIDTH, _HEIGHT, _ROW = 2.45, 2.35, 0.62  # inches: of a small panel, and the height of a profile's row
_MOST_KEYS = 24


def section_figure(panels: Sequence[Panel], palette: Palette) -> Figure:
    """Draws the panels.

    Args:
        panels: at least one.
        palette: the colours of the whole report.

    Raises:
        MissingExtraError: without matplotlib.
    """
    pyplot = require_pyplot()
    rows = _rows([clean(panel) for panel in panels])
    columns = max(len(row) for row in rows)
    width = _WIDTH * max(columns, 2.6 if any(_is_wide(panel) for panel in panels) else 1.4)
    heights = [max(_height(panel, width / len(row)) for panel in row) for row in rows]
    keys = [_shortened(key, width) for key in legend_keys(panels, palette)[:_MOST_KEYS]]
    with drawing(None), pyplot.rc_context({"font.family": families()}):
        legend_columns, legend_height = _legend_shape(keys, width)
        figure: Figure = pyplot.figure(figsize=(width, sum(heights) + legend_height), layout="constrained")
        grid = figure.add_gridspec(len(rows), columns, height_ratios=heights)
        for r, row in enumerate(rows):
            for c, panel in enumerate(row):
                cell = grid[r, :] if _is_wide(panel) else grid[r, c]
                _draw(figure, cell, panel, palette, width if _is_wide(panel) else width / columns)
        if keys:
            figure.legend(
                *_entries(keys, legend_columns),
                loc="outside lower center",
                ncols=legend_columns,
                fontsize=7.5,
                handlelength=1.6,
                columnspacing=1.2,
                handletextpad=0.5,
            )
    return figure


def _is_wide(panel: Panel) -> bool:
    if isinstance(panel, FrontPanel):
        return len(panel.names) > 3
    if isinstance(panel, Heat):
        return is_wide_heat(panel)
    return isinstance(panel, Profile) or (isinstance(panel, Bars) and len(panel.groups) * len(panel.series) > 24)


def _height(panel: Panel, width: float) -> float:
    title = 0.15 * _title(panel, width).count("\n")
    if isinstance(panel, Profile):
        return title + 0.7 + _ROW * max(len(panel.methods), 1)
    if isinstance(panel, Heat):
        return title + heat_height(panel, width)
    return title + _HEIGHT + (0.3 if isinstance(panel, FrontPanel) and len(panel.names) == 3 else 0.0)


def _title(panel: Panel, width: float) -> str:
    return paper_lines(panel.title, max(int(12.5 * width), 12))


def _axis_label(text: str) -> str:
    """In lines that are no longer than a small panel is high."""
    return paper_lines(text, 30)


def _rows(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Up to three small panels side by side, four in two rows, wide ones alone."""
    rows: list[list[Panel]] = []
    most = 2 if len(panels) == 4 else _COLUMNS
    for panel in panels:
        if not rows or _is_wide(panel) or _is_wide(rows[-1][0]) or len(rows[-1]) == most:
            rows.append([])
        rows[-1].append(panel)
    return rows


def _draw(figure: Figure, cell: Any, panel: Panel, palette: Palette, width: float) -> None:
    title = _title(panel, width)
    if isinstance(panel, Profile):
        _draw_profile(cell, panel, palette, title)
        return
    is_space = isinstance(panel, FrontPanel) and len(panel.names) == 3
    ax: Any = figure.add_subplot(cell, **({"projection": "3d", "computed_zorder": False} if is_space else {}))
    ax.set_title(title, fontsize=9, pad=-8 if is_space else None)
    if is_space:
        _turn(ax, width)
    if isinstance(panel, FrontPanel):
        _draw_front(ax, panel, palette)
    elif isinstance(panel, Lines):
        _draw_lines(ax, panel, palette)
    elif isinstance(panel, Heat):
        draw_heat(ax, panel, width)
    else:
        _draw_bars(ax, panel, palette)


def _turn(ax: Any, width: float) -> None:
    """Seen from the side of large losses, on paper without panes."""
    ax.view_init(elev=24, azim=38)
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_pane_color(PAPER.light)
        axis.set_major_locator(require_pyplot().MaxNLocator(4))
        axis._axinfo["grid"].update(color=PALE.light, linewidth=0.3)  # there is no public way
        axis.labelpad = -5
        axis.label.set_size(8)
    ax.zaxis.labelpad = -7
    ax.tick_params(labelsize=7, pad=-2.5)
    ax.set_box_aspect(None, zoom=1.0 if width > 3 else 0.8)


def _draw_lines(ax: Any, panel: Lines, palette: Palette) -> None:
    for line in panel.lines:
        tone = palette.tone(line.label).light
        marker = "o" if len(line.x) <= 12 else None
        dashes = "--" if line.dashed else "-"
        ax.plot(line.x, line.y, color=tone, linewidth=LINE, linestyle=dashes, marker=marker, markersize=3)
        if len(line.spread):
            low, high = band_of(line, log=panel.log_y)
            ax.fill_between(line.x, low, high, color=tone, alpha=0.16, linewidth=0)
    ax.set(xlabel=_axis_label(panel.x_label), ylabel=_axis_label(panel.y_label))
    if panel.log_x and _is_positive(value for line in panel.lines for value in line.x):
        ax.set_xscale("log")
    if panel.log_y and _is_positive(value for line in panel.lines for value in line.y):
        ax.set_yscale("log")
    _draw_levels(ax, panel)


def _draw_levels(ax: Any, panel: Lines) -> None:
    """Lines across, and their labels beside the panel, where no curve runs through them."""
    place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center", "fontsize": 7}
    for level, up in labelled_levels(panel):
        ax.axhline(level.y, color=SOFT.light, linewidth=THIN, linestyle="--", zorder=1.5)
        ax.annotate(paper_lines(level.label, 14), (1, level.y), (3, 110 * up), annotation_clip=False, **place)


def _is_positive(values: Any) -> bool:
    """Whether a logarithmic scale has anything to show."""
    return any(0 < value < float("inf") for value in values)


def _draw_bars(ax: Any, panel: Bars, palette: Palette) -> None:
    places, n = np.arange(len(panel.groups)), max(len(panel.series), 1)
    width = 0.8 / n
    for s, name in enumerate(panel.series):
        values = [row[s] for row in panel.values]
        errors = [row[s] for row in panel.errors] or None
        spots = places + (s - (n - 1) / 2) * width
        bars = {"ecolor": INK.light, "capsize": 1.5, "error_kw": {"elinewidth": THIN}}
        ax.bar(spots, values, 0.9 * width, yerr=errors, color=palette.tone(name).light, **bars)
    ax.axhline(0, color=INK.light, linewidth=THIN)
    room = 90 if _is_wide(panel) else 34  # characters along the axis
    names = [fill(paper_text(group), 12, break_long_words=False) for group in panel.groups]
    needed = len(names) * max((len(line) for name in names for line in name.split("\n")), default=0)
    turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if needed > 1.2 * room else {}
    ax.set_xticks(places, names, fontsize=6.5 if needed > room else 8, **turned)
    ax.set(ylabel=_axis_label(panel.y_label))


def _draw_profile(cell: Any, panel: Profile, palette: Palette, title: str) -> None:
    m, count = len(panel.names), max((len(profiles) for profiles in panel.profiles), default=0)
    axes: Any = cell.subgridspec(max(len(panel.methods), 1), 1).subplots(sharex=True, sharey=True, squeeze=False)
    width = 0.8 / max(m, 1)
    for r, method in enumerate(panel.methods):
        ax = axes[r, 0]
        for p, profile in enumerate(panel.profiles[r]):
            spots = p + 1 + (np.arange(m) - (m - 1) / 2) * width
            ax.bar(spots, profile, 0.86 * width, color=palette.tone(method).light)
        ax.axhline(1 / max(m, 1), color=INK.light, linewidth=THIN, linestyle="--")
        ax.set_title(paper_text(method), loc="left", fontsize=8, pad=2)
    axes[0, 0].set_xlim(0.4, max(count, 1) + 0.6)
    last = axes[-1, 0]
    last.set_xticks(range(1, count + 1))
    last.set_xlabel(fill(paper_text(f"preference (bars in the order {', '.join(panel.names)})"), 90))
    axes[0, 0].annotate(
        title, (0.5, 1), (0, 12), "axes fraction", "offset points", ha="center", va="bottom", fontsize=9
    )


def _shortened(key: Key, width: float) -> Key:
    most = int((width - 0.5) / 0.056)
    return key if len(key.text) <= most else replace(key, text=f"{key.text[: most - 1]}\u2026")


def _legend_shape(keys: Sequence[Key], width: float) -> tuple[int, float]:
    """As many columns as fit, and the height in inches that their lines take."""
    if not keys:
        return 1, 0.0
    widths = [0.38 + 0.05 * text_width(key.text) for key in keys]
    fitting = (n for n in range(len(keys), 1, -1) if sum(max(widths[c::n]) for c in range(n)) < width)
    columns = next(fitting, 1)
    return columns, 0.14 + 0.16 * -(-len(keys) // columns)


def _entries(keys: Sequence[Key], columns: int) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D

    handles = []
    by_column = [key for c in range(columns) for key in keys[c::columns]]  # so that rows are read in order
    for key in by_column:
        if key.kind == "hollow":
            look: dict[str, Any] = {"marker": "o", "linestyle": "none", "markerfacecolor": PAPER.light}
        elif key.marker is not None:
            look = {"marker": key.marker.paper, "linestyle": "none"}
        else:
            widths = {"wanted": THIN, "truth": 2.4, "path": 0.8} if key.kind == "role" else {}
            look = {"linewidth": widths.get(key.name, LINE), "linestyle": DASHES if key.is_dashed else "-"}
        handles.append(Line2D([], [], color=key.tone.light, markersize=5, **look))
    texts = [paper_text(key.text) for key in by_column]
    return handles, [f" {text}" if text.startswith("_") else text for text in texts]  # matplotlib drops "_..."


def _draw_front(ax: Any, panel: FrontPanel, palette: Palette) -> None:
    """A plane, a space on three-dimensional axes, or parallel coordinates."""
    if len(panel.names) in {2, 3}:
        _draw_space(ax, panel, palette)
    else:
        _draw_parallel(ax, panel, palette)


def _draw_space(ax: Any, panel: FrontPanel, palette: Palette) -> None:
    m = len(panel.names)
    _draw_truth(ax, panel, m)
    for segment in panel.segments:
        ends = np.array([segment.end, segment.begin], dtype=float)  # from outside: dashes in step would make rings
        color = palette.segment_tone(segment.group).light
        ax.plot(*ends.T, color=color, linewidth=THIN, linestyle=DASHES, alpha=0.7, zorder=1.4)
    for point in panel.points:
        if len(point.path):
            path = np.asarray(point.path, dtype=float)
            ax.plot(*path.T, color=palette.tone(point.group).light, linewidth=0.8, alpha=0.55, zorder=2)
    for point in panel.points:
        _draw_point(ax, point, palette, m)
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


def _draw_point(ax: Any, point: FrontPoint, palette: Palette, m: int) -> None:
    tone, spot = palette.tone(point.group).light, np.asarray(point.losses, dtype=float)
    if not np.isfinite(spot).all():
        return
    if len(point.spread):
        reach = np.nan_to_num(np.asarray(point.spread, dtype=float))
        bars = dict(zip(("xerr", "yerr", "zerr"), reach, strict=False))
        ax.errorbar(*spot, **bars, fmt="none", ecolor=tone, elinewidth=THIN, capsize=1.5, zorder=3)
    ax.scatter(
        *spot[:, None],
        s=0.65 * DOT,
        marker=palette.marker(point.place).paper,
        facecolor=tone if point.ok else PAPER.light,
        edgecolor=PAPER.light if point.ok else tone,
        linewidth=0.4 if point.ok else 0.9,
        zorder=4,
        clip_on=False,
        **({"depthshade": False} if m == 3 else {}),
    )


def _draw_parallel(ax: Any, panel: FrontPanel, palette: Palette) -> None:
    places = np.arange(len(panel.names))
    for x in places:
        ax.axvline(x, color=PALE.light, linewidth=THIN, zorder=0.5)
    for row in panel.truth:
        ax.plot(places, row, color=PALE.light, linewidth=0.4, alpha=0.4, zorder=1)
    for segment in panel.segments:
        color = palette.segment_tone(segment.group).light
        ax.plot(places, segment.end, color=color, linewidth=THIN, linestyle=DASHES, alpha=0.7, zorder=1.5)
    for point in panel.points:
        tone = palette.tone(point.group).light
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
            marker=palette.marker(point.place).paper,
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
