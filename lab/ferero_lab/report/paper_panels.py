"""The panels of a section as one figure for a paper: rows of up to three, one legend below all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ferero.plot.style import LINE, THIN, drawing, require_pyplot
from ferero_lab.report.clean import clean
from ferero_lab.report.legend import Key, legend_keys
from ferero_lab.report.look import INK, PALE, PAPER, SOFT, Look
from ferero_lab.report.panels import Bars, FrontPanel, Heat, Lines, Panel, Profile
from ferero_lab.report.paper_front import draw_front
from ferero_lab.report.paper_heat import draw_heat, heat_height
from ferero_lab.report.paper_words import families, paper_lines, paper_text, text_width
from ferero_lab.report.scales import band_of, is_wide_heat, labelled_levels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["section_figure"]

_COLUMNS = 3
_WIDTH, _HEIGHT, _ROW = 2.45, 2.35, 0.62  # inches: of a small panel, and the height of a profile's row
_MOST_KEYS = 24


def section_figure(panels: Sequence[Panel], look: Look) -> Figure:
    """Draws the panels.

    Args:
        panels: at least one.
        look: the colours of the whole report.

    Raises:
        MissingExtraError: without matplotlib.
    """
    pyplot = require_pyplot()
    rows = _rows([clean(panel) for panel in panels])
    columns = max(len(row) for row in rows)
    width = _WIDTH * max(columns, 2.6 if any(_is_wide(panel) for panel in panels) else 1.4)
    heights = [max(_height(panel, width / len(row)) for panel in row) for row in rows]
    keys = [_shortened(key, width) for key in legend_keys(panels, look)[:_MOST_KEYS]]
    with drawing(None), pyplot.rc_context({"font.family": families()}):
        legend_columns, legend_height = _legend_shape(keys, width)
        figure: Figure = pyplot.figure(figsize=(width, sum(heights) + legend_height), layout="constrained")
        grid = figure.add_gridspec(len(rows), columns, height_ratios=heights)
        for r, row in enumerate(rows):
            for c, panel in enumerate(row):
                cell = grid[r, :] if _is_wide(panel) else grid[r, c]
                _draw(figure, cell, panel, look, width if _is_wide(panel) else width / columns)
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


def _draw(figure: Figure, cell: Any, panel: Panel, look: Look, width: float) -> None:
    title = _title(panel, width)
    if isinstance(panel, Profile):
        _draw_profile(cell, panel, look, title)
        return
    is_space = isinstance(panel, FrontPanel) and len(panel.names) == 3
    ax: Any = figure.add_subplot(cell, **({"projection": "3d", "computed_zorder": False} if is_space else {}))
    ax.set_title(title, fontsize=9, pad=-8 if is_space else None)
    if is_space:
        _turn(ax, width)
    if isinstance(panel, FrontPanel):
        draw_front(ax, panel, look)
    elif isinstance(panel, Lines):
        _draw_lines(ax, panel, look)
    elif isinstance(panel, Heat):
        draw_heat(ax, panel, width)
    else:
        _draw_bars(ax, panel, look)


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


def _draw_lines(ax: Any, panel: Lines, look: Look) -> None:
    for line in panel.lines:
        tone = look.tone(line.label).light
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


def _draw_bars(ax: Any, panel: Bars, look: Look) -> None:
    places, n = np.arange(len(panel.groups)), max(len(panel.series), 1)
    width = 0.8 / n
    for s, name in enumerate(panel.series):
        values = [row[s] for row in panel.values]
        errors = [row[s] for row in panel.errors] or None
        spots = places + (s - (n - 1) / 2) * width
        bars = {"ecolor": INK.light, "capsize": 1.5, "error_kw": {"elinewidth": THIN}}
        ax.bar(spots, values, 0.9 * width, yerr=errors, color=look.tone(name).light, **bars)
    ax.axhline(0, color=INK.light, linewidth=THIN)
    room = 90 if _is_wide(panel) else 34  # characters along the axis
    names = [fill(paper_text(group), 12, break_long_words=False) for group in panel.groups]
    needed = len(names) * max((len(line) for name in names for line in name.split("\n")), default=0)
    turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if needed > 1.2 * room else {}
    ax.set_xticks(places, names, fontsize=6.5 if needed > room else 8, **turned)
    ax.set(ylabel=_axis_label(panel.y_label))


def _draw_profile(cell: Any, panel: Profile, look: Look, title: str) -> None:
    m, count = len(panel.names), max((len(profiles) for profiles in panel.profiles), default=0)
    axes: Any = cell.subgridspec(max(len(panel.methods), 1), 1).subplots(sharex=True, sharey=True, squeeze=False)
    width = 0.8 / max(m, 1)
    for r, method in enumerate(panel.methods):
        ax = axes[r, 0]
        for p, profile in enumerate(panel.profiles[r]):
            spots = p + 1 + (np.arange(m) - (m - 1) / 2) * width
            ax.bar(spots, profile, 0.86 * width, color=look.tone(method).light)
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
        elif key.mark is not None:
            look = {"marker": key.mark.paper, "linestyle": "none"}
        else:
            widths = {"wanted": THIN, "truth": 2.4, "path": 0.8} if key.kind == "role" else {}
            look = {"linewidth": widths.get(key.name, LINE), "linestyle": (0, (5, 3)) if key.is_dashed else "-"}
        handles.append(Line2D([], [], color=key.tone.light, markersize=5, **look))
    texts = [paper_text(key.text) for key in by_column]
    return handles, [f" {text}" if text.startswith("_") else text for text in texts]  # matplotlib drops "_..."
