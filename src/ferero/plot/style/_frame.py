"""Axes of our own: made at an exact size, dressed for the page, in a figure that fits what was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ferero.plot.style._style import THIN, page_of, require_pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["finish", "new_panels", "new_plane", "new_space"]

_PAD = 0.06  # inches around everything
_ours: WeakSet[Figure] = WeakSet()  # only figures of ours are resized, and get a legend


def new_plane(names: Sequence[str], width: float = 3.2, height: float = 3.2) -> Axes:
    """Empty axes for two losses, that many inches large."""
    (ax,) = new_panels(width, (height,))
    ax.set(xlabel=names[0], ylabel=names[1])
    return ax


def new_panels(width: float, heights: Sequence[float]) -> tuple[Axes, ...]:
    """Empty axes below each other, that many inches large, with one horizontal axis in common."""
    gap = 0.15
    top = sum(heights) + gap * (len(heights) - 1)
    figure: Figure = require_pyplot().figure(figsize=(width, top), layout="none")
    _ours.add(figure)
    axes: list[Axes] = []
    at = top
    for height in heights:
        box = (0.0, (at - height) / top, 1.0, height / top)
        axes.append(figure.add_axes(box, sharex=axes[0] if axes else None))
        at -= height + gap
        _dress(axes[-1])
    for ax in axes[:-1]:
        ax.tick_params(labelbottom=False)
    return tuple(axes)


def new_space(names: Sequence[str], size: float = 3.8) -> Axes:
    """Empty three-dimensional axes for three losses, seen from the side of large losses."""
    figure: Figure = require_pyplot().figure(figsize=(size, size), layout="none")
    _ours.add(figure)
    # what is drawn later lies on top, as in the plane: by depth, a dense true front would bury the answers
    ax: Any = figure.add_axes((0.0, 0.0, 1.0, 1.0), projection="3d", computed_zorder=False)
    _dress(ax)
    page = page_of(ax)
    ax.set(xlabel=names[0], ylabel=names[1], zlabel=names[2])
    ax.view_init(elev=24, azim=38)
    ax.set_box_aspect(None, zoom=1.1)
    ax.zaxis.set_rotate_label(False)
    ax.zaxis.label.set_rotation(90)  # read from below, as in the plane
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_pane_color(page.paper)
        axis.line.set_color(page.ink)
        axis._axinfo["grid"].update(color=page.pale, linewidth=0.3)  # there is no public way
    axes: Axes = ax
    return axes


def finish(ax: Axes, extra: Sequence[tuple[Any, str]] = ()) -> None:
    """A legend to the right, clear of the data, and a figure that fits; nothing on a figure of the user's.

    Args:
        ax: axes on which all has been drawn.
        extra: more entries for the legend, (handle, label).
    """
    figure = ax.get_figure(root=True)
    if figure is None or figure not in _ours:
        return
    handles, labels = ax.get_legend_handles_labels()
    handles, labels = [*handles, *(handle for handle, _ in extra)], [*labels, *(label for _, label in extra)]
    if handles:
        place = (1.03, 1.0) if ax.name != "3d" else (1.04, 0.9)
        ax.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=place,
            borderaxespad=0.0,
            frameon=False,
            fontsize=8,
            labelcolor=page_of(ax).ink,
        )
    _fit(figure)


def _dress(ax: Axes) -> None:
    """Sets what matplotlib would otherwise read when it draws, which can be after the theme has ended."""
    page = page_of(ax)
    ax.tick_params(color=page.ink, labelcolor=page.ink, labelsize=8, width=THIN, length=3)
    ax.tick_params(which="minor", color=page.ink, width=THIN, length=1.5)


def _fit(figure: Figure) -> None:
    """Grows or shrinks the figure around its axes, whose size in inches stays as it is."""
    old = figure.get_size_inches()
    tight = figure.get_tightbbox()
    new = (tight.width + 2 * _PAD, tight.height + 2 * _PAD)
    boxes = [ax.get_position(original=True) for ax in figure.axes]
    figure.set_size_inches(*new)
    for ax, box in zip(figure.axes, boxes, strict=True):
        left = (box.x0 * old[0] - tight.x0 + _PAD) / new[0]
        low = (box.y0 * old[1] - tight.y0 + _PAD) / new[1]
        ax.set_position((left, low, box.width * old[0] / new[0], box.height * old[1] / new[1]))
