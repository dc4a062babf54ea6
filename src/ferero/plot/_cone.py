"""What a cone calls better than a point, as an area."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ferero._arrays import Array, ArrayLike
from ferero.geometry import Cone
from ferero.plot.style._clip import check_plane, clip_line, clip_polygon, line_of, view_of
from ferero.plot.style._frame import finish, new_plane
from ferero.plot.style._style import RING, SHADE, THIN, drawing, page_of
from ferero.preference._assembly import as_vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_cone"]


def plot_cone(
    cone: Cone, at: ArrayLike, ax: Axes | None = None, *, color: str | None = None, label: str | None = None
) -> Axes:
    """Shades the losses that dominate a point: ``{u : A (u - at) <= 0}``, as far as the axes show.

    Args:
        cone: the order of two losses.
        at: the point (2,).
        ax: where to draw, its limits being what is seen; None makes a figure around the point.
        color: of the area; None is the first of the palette.
        label: for the legend; "better than (...)" if None, nothing if empty.

    Returns:
        The axes.

    Raises:
        InputError: unless there are two losses.
        MissingExtraError: without matplotlib.
    """
    check_plane(cone.m, "cone")
    point: Array = as_vector(at, "at", 2).numpy()
    with drawing(ax):
        axes = _axes_around(point) if ax is None else ax
        _draw(axes, cone, point, color or page_of(axes).series[0], label)
        finish(axes)
    return axes


def _axes_around(point: Array) -> Axes:
    ax = new_plane(("f1", "f2"))
    size = float(np.abs(point).max()) or 1.0
    ax.set(xlim=point[0] + size * np.array([-1, 0.5]), ylim=point[1] + size * np.array([-1, 0.5]))
    return ax


def _draw(ax: Axes, cone: Cone, point: Array, color: str, label: str | None) -> None:
    view, A = view_of(ax), cone.matrix.numpy()
    corners = clip_polygon(view, A, -A @ point)
    if len(corners):
        text = f"better than ({point[0]:.3g}, {point[1]:.3g})" if label is None else label
        ax.fill(*corners.T, facecolor=color, alpha=SHADE, linewidth=0, label=text, zorder=0.5)
    for i, row in enumerate(A):  # the part of each facet's line on which the other rows hold
        others = np.delete(A, i, axis=0)
        edge = clip_line(view, point, line_of(row, 0.0)[1], others, -others @ point)
        if edge is not None:
            ax.plot(*edge.T, color=color, linewidth=THIN, zorder=1.5)
    ax.scatter(point[0], point[1], s=RING, color=page_of(ax).ink, zorder=4)
    ax.set(xlim=view[:, 0], ylim=view[:, 1])
