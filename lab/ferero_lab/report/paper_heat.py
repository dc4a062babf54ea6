"""A matrix as a picture for a paper, with the marks on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ferero_lab.report.panels import Heat, Mark, edges, rule_ends
from ferero_lab.report.paper_words import can_print, families, paper_lines, paper_text
from ferero_lab.report.style import INK, PAPER, text_width

__all__ = ["draw_heat", "heat_height", "stagger"]

_FRAME = 1.4  # inches beside the matrix: names of rows and the scale of colours
_LETTER, _LINE = 0.062, 0.115  # inches: a Latin letter's width and a line's height
_LEVELS = 3
_ROW, _MOST_ROWS = 0.105, 50


def heat_height(panel: Heat, width: float) -> float:
    """In inches, for a panel of this width."""
    named = _ROW * min(len(panel.rows), _MOST_ROWS)
    return max(1.9, 0.75 + named) + _LINE * _lines_of_labels(panel, width)


def draw_heat(ax: Any, panel: Heat, width: float) -> None:
    """Draws the panel on axes.

    Labels above it are spread over three lines; one that finds no room is left out, its line is not. Names in letters
    that no font here has become numbers, and the axis says so.

    Args:
        ax: matplotlib's axes, which have their title.
        panel: cleaned.
        width: of the panel, in inches.
    """
    matrix, ends = np.asarray(panel.values, dtype=float), edges(panel.x)
    count = len(panel.values)
    if np.isfinite(matrix).any():
        mesh = ax.pcolormesh(ends, np.arange(count + 1) - 0.5, matrix, cmap="viridis", rasterized=True)
        scale = ax.figure.colorbar(mesh, ax=ax, fraction=0.03, pad=0.012, aspect=40)
        scale.outline.set_visible(False)
        scale.ax.tick_params(labelsize=7)
        scale.set_label(paper_lines(panel.value_label, 30), fontsize=8)
    ax.set(xlim=(ends[0], ends[-1]), ylim=(-0.5, max(count, 1) - 0.5))
    if panel.top_down:
        ax.invert_yaxis()
    note = "" if _is_printable(panel) else "\n(numbers: names in their order, which no font here can print)"
    ax.set(xlabel=paper_lines(panel.x_label, 90) + note, ylabel=paper_lines(panel.y_label, 30))
    _name_rows(ax, panel)
    _draw_marks(ax, panel, width)


def _name_rows(ax: Any, panel: Heat) -> None:
    if not len(panel.rows):
        return
    names = [paper_text(name) for name in panel.rows]
    if not all(can_print(name) for name in panel.rows):
        names = [str(r + 1) for r in range(len(names))]
    shown = range(0, len(names), -(-len(names) // _MOST_ROWS))
    ax.set_yticks(list(shown), [names[r] for r in shown], fontsize=6.5, fontfamily=families())


def _draw_marks(ax: Any, panel: Heat, width: float) -> None:
    spots = [(mark.x, mark.row) for mark in panel.marks if mark.row is not None]
    if spots:
        ax.scatter(*zip(*spots, strict=True), s=7, color=PAPER.light, edgecolor=INK.light, linewidth=0.5, zorder=3)
    rules = _rules(panel)
    low, high = rule_ends(len(panel.values), len(rules), panel.top_down)
    ax.vlines([mark.x for mark in rules], low, high, color=PAPER.light, alpha=0.55, linewidth=0.5)
    for (x, text), level in zip(_labels(panel), _levels(panel, width), strict=True):
        if level is not None:
            place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            above = (0, 2 + 72 * _LINE * level)
            ax.annotate(text, (x, 1), above, **place, ha="center", va="bottom", fontsize=7, fontfamily=families())
    ax.set_title(ax.get_title(), fontsize=9, pad=5 + 72 * _LINE * _lines_of_labels(panel, width))


def _rules(panel: Heat) -> list[Mark]:
    ends = edges(panel.x)
    inside = [mark for mark in panel.marks if mark.row is None and ends[0] <= mark.x <= ends[-1]]
    return sorted(inside, key=lambda mark: mark.x)


def _labels(panel: Heat) -> list[tuple[float, str]]:
    """Where, and what is written: numbers for all of them if one cannot be written."""
    marks = [mark for mark in _rules(panel) if mark.label]
    if all(can_print(mark.label) for mark in marks):
        return [(mark.x, paper_text(mark.label)) for mark in marks]
    return [(mark.x, str(number)) for number, mark in enumerate(marks, start=1)]


def _is_printable(panel: Heat) -> bool:
    return all(can_print(text) for text in [*panel.rows, *(mark.label for mark in _rules(panel))])


def _levels(panel: Heat, width: float) -> list[int | None]:
    """For each label the lowest line on which it touches no other one; None where there is none."""
    labels, ends = _labels(panel), edges(panel.x)
    inch = max(width - _FRAME, 0.5) / (ends[-1] - ends[0])
    return stagger([inch * x for x, _ in labels], [_LETTER * (text_width(text) + 0.4) for _, text in labels])


def stagger(centres: Sequence[float], widths: Sequence[float]) -> list[int | None]:
    """Lines for texts from left to right.

    Args:
        centres: (n,), increasing.
        widths: (n,).

    Returns:
        For each the lowest of three lines where it overlaps none before it, or None.
    """
    filled = [float("-inf")] * _LEVELS
    levels: list[int | None] = []
    for centre, width in zip(centres, widths, strict=True):
        level = next((i for i in range(_LEVELS) if filled[i] <= centre - width / 2), None)
        if level is not None:
            filled[level] = centre + width / 2
        levels.append(level)
    return levels


def _lines_of_labels(panel: Heat, width: float) -> int:
    return max((level + 1 for level in _levels(panel, width) if level is not None), default=0)
