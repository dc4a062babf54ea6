"""More losses than a picture has dimensions: one upright scale for each, one line for each point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ferero._arrays import Array
from ferero.errors import UnsupportedError
from ferero.fronts._found import Found, shortfall_of
from ferero.fronts._front import Front
from ferero.plot.style._frame import finish, new_panels
from ferero.plot.style._style import LINE, THIN, drawing, page_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_parallel"]


def plot_parallel(front: Front[Found], ax: Axes | None, *, truth: Array | None, labels: Sequence[str]) -> Axes:
    """Draws each point as a line over the losses' names, in units of its ray where all preferences are rays.

    Args:
        front: of any number of losses.
        ax: where to draw; None makes a figure.
        truth: points (K, m) of the true front, faintly behind.
        labels: for the legend.

    Raises:
        UnsupportedError: for a truth where the units are those of the rays, since its points belong to none.
    """
    relative = _in_units_of_rays(front)
    if truth is not None and relative is not None:
        raise UnsupportedError(
            "truth: each point is drawn in units of its own ray, and the points of the true front have none, found "
            f"{len(truth)} of them; leave truth out."
        )
    with drawing(ax):
        axes = new_panels(max(3.6, 0.6 * len(front.names)), (2.4,))[0] if ax is None else ax
        _draw(axes, front, relative, truth, labels)
        finish(axes)
    return axes


def _draw(ax: Axes, front: Front[Found], relative: Array | None, truth: Array | None, labels: Sequence[str]) -> None:
    page, places = page_of(ax), np.arange(len(front.names))
    values = front.losses.numpy() if relative is None else relative
    for x in range(len(places)):
        ax.axvline(x, color=page.pale, linewidth=THIN, zorder=0.5)
    if truth is not None:
        ax.plot(places, truth.T, color=page.pale, linewidth=THIN, alpha=page.faint, zorder=1)
    for row, result, color, label in zip(values, front.results, page.colors(len(front)), labels, strict=True):
        ax.plot(
            places,
            row,
            color=color,
            linewidth=LINE,
            linestyle="--" if shortfall_of(result) else "-",
            marker="o",
            markersize=4.5,
            markerfacecolor=color if result.success else page.paper,
            label=label,
        )
    ax.set_xticks(places, front.names)
    ax.set(xlim=(-0.3, len(places) - 0.7), ylabel="loss" if relative is None else "loss / ray")
    if (values > 0).all() and values.max() > 1e3 * values.min():
        ax.set_yscale("log")


def _in_units_of_rays(front: Front[Found]) -> Array | None:
    """``(F - through) / ray``, (P, m), None unless all preferences are rays with positive components."""
    rows = []
    for losses, preference in zip(front.losses, front.preferences, strict=True):
        if preference.ray is None or not bool((preference.ray > 0).all()):
            return None
        start = 0.0 if preference.through is None else preference.through
        rows.append(((losses - start) / preference.ray).numpy())
    return np.stack(rows)
