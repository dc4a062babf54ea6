"""Areas and lines in the plane of two losses: what meets a preference, and what a cone calls better than a point."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ferero._arrays import Array, ArrayLike
from ferero.errors import InputError
from ferero.geometry import Cone
from ferero.plot.style._clip import check_plane, clip_line, clip_polygon, line_of, view_of
from ferero.plot.style._style import DASHES, LINE, RING, SHADE, THIN, drawing, finish, new_plane, page_of
from ferero.preference import Preference
from ferero.preference._assembly import as_vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_cone", "plot_region", "preference_segment"]

_BEYOND = 1.5  # how far a picture goes past the outermost corner of what it shows
_ROUNDING = 1e-9


def plot_region(
    preference: Preference, ax: Axes | None = None, *, color: str | None = None, label: str | None = None
) -> Axes:
    """Shades ``{G <= 0}`` and dashes ``{H = 0}`` there, as far as the axes show.

    The half-space of a ray is not shaded: it only ends the line.

    Args:
        preference: a single one over two losses.
        ax: where to draw, its limits being what is seen; None makes a figure of the unit square, or of as much more as
            shows the corners of the area.
        color: of area and line; None is the palette's green.
        label: for the legend; the constraints in words if None, nothing if empty.

    Returns:
        The axes.

    Raises:
        InputError: unless there are two losses, and one preference.
        MissingExtraError: without matplotlib.
    """
    check_plane(preference.m, "preference")
    if preference.members:
        raise InputError("preference: expected a single one, found a stack; draw its members one by one.")
    with drawing(ax):
        axes = _plane_for(preference) if ax is None else ax
        _draw_region(axes, preference, color or page_of(axes).series[2], label)
        finish(axes)
    return axes


def preference_segment(preference: Preference, view: Array) -> Array | None:
    """The ends of what of ``{H = 0}`` is in a box and meets ``G <= 0``, (2, m); None for what is not a line.

    A ray from the origin, which has no half-space of its own, ends there.

    Args:
        preference: a line in m dimensions, or any other with one independent equality if m = 2.
        view: the box's lower and upper corner (2, m).
    """
    rows, offsets = preference.B_g.numpy(), preference.b_g.numpy()
    if preference.ray is not None:
        ray = preference.ray.numpy()
        if preference.through is None:
            return clip_line(view, np.zeros_like(ray), ray, -ray[None], np.zeros(1))
        return clip_line(view, preference.through.numpy(), ray, rows, offsets)
    equalities = preference.B_h.numpy()
    if preference.m != 2 or np.linalg.matrix_rank(equalities) != 1:
        return None
    longest = int(np.abs(equalities).max(axis=1).argmax())
    point, direction = line_of(equalities[longest], float(preference.b_h[longest]))
    return clip_line(view, point, direction, rows, offsets)


def _plane_for(preference: Preference) -> Axes:
    rows = np.concatenate([preference.B_g.numpy(), preference.B_h.numpy(), np.eye(2)])
    offsets = np.concatenate([preference.b_g.numpy(), preference.b_h.numpy(), np.zeros(2)])
    corners = [np.zeros(2)]
    for i, j in combinations(range(len(rows)), 2):
        pair = rows[[i, j]]
        if np.linalg.matrix_rank(pair) == 2:
            corner = np.linalg.solve(pair, -offsets[[i, j]])
            if bool(preference.is_satisfied(corner, atol=_ROUNDING * float(np.abs(corner).max()))):
                corners.append(corner)
    farthest = np.max(corners, axis=0)
    right, top = np.where(farthest > 1, _BEYOND * farthest, 1.0)
    ax = new_plane(preference.names)
    ax.set(xlim=(0, right), ylim=(0, top))
    return ax


def _draw_region(ax: Axes, preference: Preference, color: str, label: str | None) -> None:
    view = view_of(ax)
    has_area = preference.m_g > 0 and preference.ray is None
    area, line = "; ".join(preference.labels_g), "; ".join(dict.fromkeys(preference.labels_h))
    if label is not None:
        area, line = label, "" if has_area else label
    if has_area:
        _draw_area(ax, preference, view, color, area)
    _draw_line(ax, preference, view, color, line)
    ax.set(xlim=view[:, 0], ylim=view[:, 1])


def _draw_area(ax: Axes, preference: Preference, view: Array, color: str, label: str) -> None:
    corners = clip_polygon(view, preference.B_g.numpy(), preference.b_g.numpy())
    if not len(corners):
        return
    ax.fill(*corners.T, facecolor=color, alpha=SHADE, linewidth=0, label=label, zorder=0.5)
    for i, row in enumerate(preference.B_g.numpy()):
        others = np.delete(preference.B_g.numpy(), i, axis=0), np.delete(preference.b_g.numpy(), i)
        edge = clip_line(view, *line_of(row, float(preference.b_g[i])), *others)
        if edge is not None:
            ax.plot(*edge.T, color=color, linewidth=THIN, zorder=1.5)


def _draw_line(ax: Axes, preference: Preference, view: Array, color: str, label: str) -> None:
    segment = preference_segment(preference, view)
    if segment is not None:
        ax.plot(*segment.T, color=color, linewidth=LINE, linestyle=DASHES, label=label, zorder=2)
    elif preference.m_h and np.linalg.matrix_rank(preference.B_h.numpy()) == 2:
        point = np.linalg.lstsq(preference.B_h.numpy(), -preference.b_h.numpy(), rcond=None)[0]
        ax.scatter(point[0], point[1], marker="+", s=60, color=color, label=label, zorder=2)


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
        _draw_cone(axes, cone, point, color or page_of(axes).series[0], label)
        finish(axes)
    return axes


def _axes_around(point: Array) -> Axes:
    ax = new_plane(("f1", "f2"))
    size = float(np.abs(point).max()) or 1.0
    ax.set(xlim=point[0] + size * np.array([-1, 0.5]), ylim=point[1] + size * np.array([-1, 0.5]))
    return ax


def _draw_cone(ax: Axes, cone: Cone, point: Array, color: str, label: str | None) -> None:
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
