"""Half-planes, lines and half-lines, cut to what the axes show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ferero._arrays import Array
from ferero.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_plane", "clip_line", "clip_polygon", "line_of", "view_of"]


def view_of(ax: Axes) -> Array:
    """What the axes show: the lower left and the upper right corner, (2, 2)."""
    limits = np.array([sorted(ax.get_xlim()), sorted(ax.get_ylim())])
    return np.ascontiguousarray(limits.T)


def clip_polygon(view: Array, rows: Array, offsets: Array) -> Array:
    """The corners of ``{y in the view : rows y + offsets <= 0}``, in order.

    Args:
        view: two corners (2, 2).
        rows: half-planes (k, 2).
        offsets: their constants (k,).

    Returns:
        Corners (c, 2); none where nothing is left.
    """
    (left, low), (right, high) = view
    corners = np.array([[left, low], [right, low], [right, high], [left, high]])
    for row, offset in zip(rows, offsets, strict=True):
        values = corners @ row + offset
        kept: list[Array] = []
        for i in range(len(corners)):
            here, there = values[i - 1], values[i]
            if (here <= 0) != (there <= 0):
                kept.append(corners[i - 1] + here / (here - there) * (corners[i] - corners[i - 1]))
            if there <= 0:
                kept.append(corners[i])
        corners = np.array(kept).reshape(-1, 2)
    return corners


def clip_line(view: Array, point: Array, direction: Array, rows: Array, offsets: Array) -> Array | None:
    """The ends of the part of a line inside a box where ``rows y + offsets <= 0``, (2, m), in any dimension.

    Args:
        view: two corners (2, m).
        point: on the line (m,).
        direction: of the line (m,).
        rows: more half-spaces (k, m).
        offsets: their constants (k,).
    """
    eye = np.eye(len(point))
    slopes = np.vstack([eye, -eye, rows]) @ direction
    spare = -np.concatenate([point - view[1], view[0] - point, rows @ point + offsets])
    flat = slopes == 0
    if (spare[flat] < -1e-9 * np.ptp(view, axis=0).max()).any():
        return None
    at = spare[~flat] / slopes[~flat]
    start = at[slopes[~flat] < 0].max(initial=-np.inf)
    end = at[slopes[~flat] > 0].min(initial=np.inf)
    return np.stack([point + start * direction, point + end * direction]) if start < end else None


def line_of(row: Array, offset: float) -> tuple[Array, Array]:
    """A point on ``{y : row y + offset == 0}`` in the plane and its direction."""
    return -offset * row / (row @ row), np.array([-row[1], row[0]])


def check_plane(m: int, what: str) -> None:
    """Raises unless there are two losses."""
    if m != 2:
        raise InputError(f"{what}: expected m = 2 losses, which make a plane, found m = {m}.")
