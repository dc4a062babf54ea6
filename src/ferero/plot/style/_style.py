"""Style of every picture: colours, widths and sizes on a light or a dark page, and axes of an exact size.

Colours are read from the page that is drawn on, so a figure made inside ``theme(dark=True)`` and axes that a
user darkened by other means look the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ferero.errors import MissingExtraError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BOLD",
    "DARK",
    "DASHES",
    "DOT",
    "LIGHT",
    "LINE",
    "OKABE_ITO",
    "RING",
    "SHADE",
    "THIN",
    "Page",
    "drawing",
    "finish",
    "new_panels",
    "new_plane",
    "new_space",
    "page_of",
    "require_pyplot",
    "theme",
]

OKABE_ITO = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
}
"""The colours of Okabe and Ito, which people with any kind of colour vision can tell apart."""

BOLD, LINE, THIN = 2.8, 1.2, 0.7  # line widths in points
DOT, RING = 36.0, 22.0  # marker areas in points squared
SHADE = 0.16  # opacity of areas
DASHES = (0, (5, 3))  # of a preference's line: points drawn, points left out

_is_active: ContextVar[bool] = ContextVar("ferero_theme", default=False)
_PAD = 0.06  # inches around everything
_ours: WeakSet[Figure] = WeakSet()  # only figures of ours are resized, and get a legend


@dataclass(frozen=True)
class Page:
    """The colours that can be read on one background.

    Attributes:
        paper: the background.
        ink: text and what matters most.
        pale: what should be seen last.
        faint: the opacity of coloured lines that only guide the eye.
        series: the colours for a few things, in the order in which they are used.
        sweep: where there are more of them, they are spread evenly along these.
    """

    paper: str
    ink: str
    pale: str
    faint: float
    series: tuple[str, ...]
    sweep: tuple[str, ...]

    def colors(self, n: int) -> list[str]:
        """One colour for each of n things: the series while it lasts, even steps along the sweep beyond."""
        if n <= len(self.series):
            return list(self.series[:n])
        from matplotlib.colors import LinearSegmentedColormap, to_hex

        sweep = LinearSegmentedColormap.from_list("ferero", list(self.sweep))
        return [to_hex(sweep(i / (n - 1))) for i in range(n)]


def _named(names: str) -> tuple[str, ...]:
    return tuple(OKABE_ITO[name] for name in names.split())


LIGHT = Page(
    paper="#FFFFFF",
    ink="#1A1A1A",
    pale="#BDBDBD",
    faint=0.5,
    series=_named("blue vermillion green purple orange sky"),  # yellow is lost on white
    sweep=_named("blue sky green orange vermillion purple"),
)
DARK = Page(
    paper="#14171A",
    ink="#E8E8E8",
    pale="#5C6166",
    faint=0.65,
    series=_named("sky orange green purple vermillion yellow"),  # blue is lost on black
    sweep=_named("sky green yellow orange vermillion purple"),
)


@contextmanager
def theme(dark: bool = False) -> Iterator[None]:
    """Draws everything inside the ``with`` in ferero's style; text stays text in SVG and PDF files.

    Args:
        dark: light ink on a dark page.

    Raises:
        MissingExtraError: without matplotlib.

    Example:
        >>> with theme(dark=True):  # doctest: +SKIP
        ...     front.plot()
    """
    plt = require_pyplot()
    token = _is_active.set(True)
    try:
        with plt.rc_context(_rc(DARK if dark else LIGHT)):
            yield
    finally:
        _is_active.reset(token)


def drawing(ax: object) -> AbstractContextManager[None]:
    """The theme for a picture: none on given axes or inside a ``with theme(...)``, else the light one.

    Raises:
        MissingExtraError: without matplotlib.
    """
    require_pyplot()
    return nullcontext() if ax is not None or _is_active.get() else theme()


def require_pyplot() -> ModuleType:
    """`matplotlib.pyplot`, or the name of the extra that brings it.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError(
            'plot: matplotlib is not installed; it comes with pip install "ferero[plot]".'
        ) from None
    return pyplot


def page_of(ax: Axes) -> Page:
    """The colours for what is drawn on these axes: those of a dark page where the background is dark."""
    from matplotlib.colors import to_rgba

    red, green, blue, alpha = to_rgba(ax.get_facecolor())
    figure = ax.get_figure()
    if alpha < 0.5 and figure is not None:
        red, green, blue, alpha = to_rgba(figure.get_facecolor())
    is_dark = alpha >= 0.5 and 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.4
    return DARK if is_dark else LIGHT


def _rc(page: Page) -> dict[str, Any]:
    from cycler import cycler

    colored = (
        "axes.edgecolor",
        "axes.labelcolor",
        "axes.titlecolor",
        "text.color",
        "xtick.color",
        "ytick.color",
    )
    return {
        **dict.fromkeys(colored, page.ink),
        "figure.facecolor": page.paper,
        "axes.facecolor": page.paper,
        "savefig.facecolor": "auto",
        "figure.dpi": 150,
        "savefig.dpi": 300,
        "font.size": 9,
        "axes.labelsize": 9,
        "axes.titlesize": 10,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "axes.linewidth": THIN,
        "lines.linewidth": LINE,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=page.series),
        "grid.color": page.pale,
        "grid.linewidth": 0.4,
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
    }


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
