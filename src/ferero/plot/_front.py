"""A front as a picture: a plane for two losses, a space for three, parallel coordinates for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ferero._arrays import Array, ArrayLike, to_float64
from ferero.errors import InputError, UnsupportedError
from ferero.fronts._front import Found, Front, preference_text, shortfall_of, trajectory_of
from ferero.plot._region import preference_segment
from ferero.plot.style._clip import view_of
from ferero.plot.style._style import (
    BOLD,
    DASHES,
    DOT,
    LINE,
    RING,
    THIN,
    Page,
    drawing,
    finish,
    new_panels,
    new_plane,
    new_space,
    page_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["missed_handle", "plot_front"]

_MOST = 10  # preferences that are listed one by one; more would outgrow the picture


def plot_front(
    front: Front[Found],
    ax: Axes | None = None,
    *,
    truth: ArrayLike | None = None,
    trajectories: bool = True,
    rays: bool = True,
    labels: Sequence[str] | None = None,
) -> Axes:
    """Draws the preferences, the trajectories and the points found.

    Dots are the points found, in the colour of their preference; hollow and crossed where the run did not
    converge or the model does not meet its preference, hollow where that was not checked. Rings are the starts.
    Two losses make a plane and three a space; more are drawn as parallel coordinates, in units of the rays where
    all preferences are rays, so that a point on its ray is a level line.

    Args:
        front: of any number of losses.
        ax: where to draw, three-dimensional for three losses, the legend left to you; None makes a figure.
        truth: points (K, m) of the true front, if known; a curve in the plane (NaN rows leave gaps).
        trajectories: draw the losses from start to end; of two or three losses.
        rays: draw the losses that meet the preferences, where they are a line; of two or three losses.
        labels: what the legend calls the points, an empty text for one that it leaves out; None for the preferences
            in words, where they are ten or fewer.

    Returns:
        The axes.

    Raises:
        InputError: for a truth, axes or labels that do not fit.
        UnsupportedError: for a truth of more than three losses, in units of the rays.
        MissingExtraError: without matplotlib.

    Example:
        >>> ax = plot_front(front)  # doctest: +SKIP
        >>> ax.figure.savefig("front.pdf")  # doctest: +SKIP
    """
    m = len(front.names)
    known, texts = _read_truth(truth, m), _legend_texts(front, labels)
    if ax is not None and (ax.name == "3d") != (m == 3):
        raise InputError(
            f"ax: expected {'three' if m == 3 else 'two'}-dimensional axes for {m} losses, found "
            f"{ax.name!r}; leave ax out, or make it with projection='3d' for three losses."
        )
    relative = None if m in {2, 3} else _in_units_of_rays(front)
    if known is not None and relative is not None:
        raise UnsupportedError(
            "truth: each point is drawn in units of its own ray, and the points of the true front have none, found "
            f"{len(known)} of them; leave truth out."
        )
    with drawing(ax):
        if m in {2, 3}:
            return _FrontPicture(front, ax, known, texts, trajectories=trajectories, rays=rays).draw()
        axes = new_panels(max(3.6, 0.6 * m), (2.4,))[0] if ax is None else ax
        _draw_parallel(axes, front, relative, known, texts)
        finish(axes)
        return axes


def missed_handle(page: Page) -> tuple[Any, Any]:
    """For a legend: the ring with a cross in it of a point that does not meet its preference."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"color": page.ink, "linestyle": "none", "markeredgewidth": LINE / 1.5}
    ring = Line2D([], [], marker="o", markersize=DOT**0.5, markerfacecolor=page.paper, **look)
    return ring, Line2D([], [], marker="x", markersize=(DOT / 2) ** 0.5, **look)


def _read_truth(truth: ArrayLike | None, m: int) -> Array | None:
    if truth is None:
        return None
    points: Array = to_float64(truth, "truth").cpu().numpy()
    if points.ndim != 2 or points.shape[1] != m:
        raise InputError(f"truth: expected points of shape (K, {m}), found {points.shape}.")
    return points


def _legend_texts(front: Front[Found], labels: Sequence[str] | None) -> list[str]:
    """A text for each preference, with its index where texts would be the same; empty ones for too many.

    Args:
        front: with the preferences.
        labels: texts of the caller's own, taken as they are.

    Raises:
        InputError: a number of labels that is not that of the points.
    """
    if labels is not None:
        if isinstance(labels, str) or len(labels) != len(front):
            raise InputError(f"labels: expected a text for each of {len(front)} points, found {labels!r}.")
        return list(labels)
    if len(front) > _MOST:
        return [""] * len(front)
    texts = [preference_text(p) for p in front.preferences]
    if len(set(texts)) == len(texts):
        return texts
    return [f"[{i}] {text}" for i, text in enumerate(texts)]


class _FrontPicture:
    """Two or three losses on axes; matplotlib takes the coordinates of both in the same way."""

    def __init__(
        self,
        front: Front[Found],
        ax: Axes | None,
        truth: Array | None,
        labels: Sequence[str],
        *,
        trajectories: bool,
        rays: bool,
    ) -> None:
        self.front, self.truth, self.labels, self.m = front, truth, labels, len(front.names)
        self.trajectories, self.rays = trajectories, rays
        self.is_ours = ax is None
        if ax is None:
            ax = new_plane(front.names) if self.m == 2 else new_space(front.names)
        elif not ax.has_data():
            ax.set(**dict(zip(("xlabel", "ylabel", "zlabel"), front.names, strict=False)))
        self.ax: Any = ax  # the type of three-dimensional axes would be needed half of the time
        self.page: Page = page_of(ax)
        self.colors = self.page.colors(len(front))

    def draw(self) -> Axes:
        view = self._set_view()
        self._draw_truth()
        if self.rays:
            self._draw_rays(view)
        if self.trajectories:
            self._draw_trajectories()
        self._draw_points()
        finish(self.ax, self._extra_entries())
        axes: Axes = self.ax
        return axes

    def _set_view(self) -> Array:
        """Room for all that is drawn, and for the origin where rays come from it and it is near; (2, m)."""
        parts = [self.front.losses.numpy()]
        if self.truth is not None:
            parts.append(self.truth)
        if self.trajectories:
            parts += [trajectory_of(r)[0] for r in self.front.results]
        points = np.concatenate(parts)
        points = points[np.isfinite(points).all(axis=1)]
        if not len(points):
            points = np.array([np.zeros(self.m), np.ones(self.m)])
        low, high = points.min(axis=0), points.max(axis=0)
        from_origin = any(p.ray is not None and p.through is None for p in self.front.preferences)
        if self.rays and from_origin:
            low = np.where((low > 0) & (low <= high - low), 0.0, low)
        spread = np.where(high > low, high - low, np.where(high != 0, np.abs(high), 1.0))
        view = np.stack([low - 0.04 * spread, high + 0.04 * spread])
        if not self.is_ours and self.m == 2 and self.ax.has_data():
            seen = view_of(self.ax)
            view = np.stack([np.minimum(view[0], seen[0]), np.maximum(view[1], seen[1])])
        limits = dict(zip(("xlim", "ylim", "zlim"), view.T, strict=False))
        self.ax.set(**limits)
        if self.m == 2 and self.is_ours and 1 / 3 <= spread[0] / spread[1] <= 3:
            self.ax.set_aspect("equal")
        return view

    def _draw_truth(self) -> None:
        if self.truth is None:
            return
        look = {"color": self.page.pale, "label": "true front", "zorder": 1.2}
        if self.m == 3:
            self._scatter(self.truth, s=2.5, linewidth=0, **look)
            return
        has_gaps = np.isnan(self.truth).any()
        curve = self.truth if has_gaps else self.truth[np.lexsort(self.truth.T[::-1])]
        self.ax.plot(*curve.T, linewidth=BOLD, solid_capstyle="round", **look)

    def _draw_rays(self, view: Array) -> None:
        look = {
            "linewidth": THIN,
            "linestyle": DASHES,
            "alpha": self.page.faint,
            "zorder": 1.0 if self.m == 2 else 1.4,
        }
        label = "preference"
        for preference, color in zip(self.front.preferences, self.colors, strict=True):
            segment = preference_segment(preference, view)
            if segment is None:
                continue
            self.ax.plot(*segment[::-1].T, color=color, **look)  # from outside: dashes in step would make rings
            if label:
                self.ax.plot(*([[]] * self.m), color=self.page.ink, label=label, **look)
                label = ""

    def _draw_trajectories(self) -> None:
        starts = []
        for result, color in zip(self.front.results, self.colors, strict=True):
            losses, from_start = trajectory_of(result)
            if len(losses):
                self.ax.plot(*losses.T, color=color, linewidth=LINE, alpha=0.8, zorder=2)
            if from_start:
                starts.append(losses[0])
        if starts:
            self._draw_starts(np.unique(np.stack(starts), axis=0))

    def _draw_starts(self, starts: Array) -> None:
        self._scatter(starts, s=RING, facecolor=self.page.paper, edgecolor=self.page.ink, label="start", zorder=3)

    def _draw_points(self) -> None:
        points = self.front.losses.numpy()
        for i, (color, label) in enumerate(zip(self.colors, self.labels, strict=True)):
            if self.front.results[i].success:
                look = {"facecolor": color, "edgecolor": self.page.paper}
            else:
                look = {"facecolor": self.page.paper, "edgecolor": color}
            if shortfall_of(self.front.results[i]):
                self._scatter(points[i][None], s=DOT / 2, marker="x", color=color, zorder=5)
            self._scatter(points[i][None], s=DOT, label=label, zorder=4, **look)

    def _extra_entries(self) -> list[tuple[Any, str]]:
        """What one artist cannot stand for in the legend: a ring with a cross in it."""
        shortfalls = sorted({shortfall_of(r) for r in self.front.results} - {""})
        return [(missed_handle(self.page), text) for text in shortfalls]

    def _scatter(self, points: Array, **style: Any) -> None:
        depth = {"depthshade": False} if self.m == 3 else {}
        self.ax.scatter(*points.T, **{"linewidth": LINE / 1.5, **depth, **style})


def _draw_parallel(
    ax: Axes, front: Front[Found], relative: Array | None, truth: Array | None, labels: Sequence[str]
) -> None:
    """Each point as a line over the losses' names, in units of the rays where ``relative`` has them."""
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
