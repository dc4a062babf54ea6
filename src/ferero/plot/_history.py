"""The history of one run: its losses and, below them, the largest violation of the preference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ferero._arrays import Array
from ferero.errors import InputError
from ferero.optimize._result import Result
from ferero.plot.style._style import LINE, drawing, finish, new_panels, page_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_history"]


def plot_history(result: Result, ax: Axes | Sequence[Axes] | None = None) -> tuple[Axes, ...]:
    """Draws the losses over the steps, and the largest violation on a logarithmic axis below them.

    Losses that span more than three powers of ten get a logarithmic axis too. Gaps in the violation are steps
    at which there was none.

    Args:
        result: a run of `ferero.minimize`.
        ax: axes for the losses, or two of them for losses and violation; None makes a figure. Without
            constraints there is no violation to draw.

    Returns:
        The axes that were drawn on, one or two.

    Raises:
        InputError: for more than two axes.
        MissingExtraError: without matplotlib.
    """
    violation: Array = result.preference.violation(result.history.losses).numpy()
    has_violation = violation.shape[1] > 0
    with drawing(ax):
        from matplotlib.ticker import MaxNLocator

        axes = new_panels(4.0, (2.0, 1.1)[: 1 + has_violation]) if ax is None else _read_axes(ax)
        _draw_losses(axes[0], result)
        if len(axes) > 1 and has_violation:
            _draw_violation(axes[1], violation.max(axis=1))
        axes[-1].set_xlabel("step")
        axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        finish(axes[0])
    return axes


def _read_axes(ax: Axes | Sequence[Axes]) -> tuple[Axes, ...]:
    axes = tuple(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) not in {1, 2}:
        raise InputError(f"ax: expected one or two axes, for losses and violation, found {len(axes)}.")
    return axes


def _draw_losses(ax: Axes, result: Result) -> None:
    values, names = result.history.losses, result.preference.names
    marker = "o" if len(values) < 30 else ""
    for name, series, color in zip(names, values.T, page_of(ax).colors(len(names)), strict=True):
        ax.plot(series, color=color, linewidth=LINE, marker=marker, markersize=2.5, label=name)
    ax.set_ylabel("loss" if len(names) == 1 else "losses")
    if (values > 0).all() and values.max() > 1e3 * values.min():
        ax.set_yscale("log")


def _draw_violation(ax: Axes, violation: Array) -> None:
    """Zeros have no place on a logarithmic axis: the line has gaps there."""
    page = page_of(ax)
    shown = np.where(violation > 0, violation, np.nan)
    ax.set_ylabel("violation")
    if np.isnan(shown).all():
        ax.set_yticks([])
        ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", va="center", color=page.ink, fontsize=8)
        return
    ax.set_yscale("log")
    marker = "o" if len(shown) < 30 else ""
    ax.plot(shown, color=page.ink, linewidth=LINE, marker=marker, markersize=2.5)
