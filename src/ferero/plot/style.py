"""The one visual language of every picture: colours, widths and sizes, on a light or a dark page.

Colours are read from the page that is drawn on, so a figure made inside ``theme(dark=True)`` and axes that a user
darkened by other means look the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ferero.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["OKABE_ITO", "Page", "add_legend", "dress", "new_axes", "new_figure", "page_of", "require_pyplot", "theme"]

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

BOLD, LINE, THIN = 1.8, 1.2, 0.7  # line widths in points
DOT, RING = 36.0, 22.0  # marker areas in points squared
FAINT, SHADE = 0.45, 0.16  # opacities of what guides the eye, and of areas

_ON_LIGHT = ("blue", "vermillion", "green", "purple", "orange", "sky")
_ON_DARK = ("sky", "orange", "green", "purple", "vermillion", "yellow")
_SWEEP = ("blue", "sky", "green", "orange", "vermillion", "purple")  # an order, where there are many

_is_active: ContextVar[bool] = ContextVar("ferero_theme", default=False)


@dataclass(frozen=True)
class Page:
    """The colours that can be read on one background.

    Attributes:
        paper: the background.
        ink: text and what matters most.
        pale: what should be seen last.
        series: the colours for a few things, in the order in which they are used.
    """

    paper: str
    ink: str
    pale: str
    series: tuple[str, ...]

    def colors(self, n: int) -> list[str]:
        """One colour for each of n things: the series while it lasts, then even steps along a sweep through it."""
        if n <= len(self.series):
            return list(self.series[:n])
        from matplotlib.colors import LinearSegmentedColormap, to_hex

        sweep = LinearSegmentedColormap.from_list("ferero", [OKABE_ITO[name] for name in _SWEEP])
        return [to_hex(sweep(i / (n - 1))) for i in range(n)]


_LIGHT = Page("#FFFFFF", "#1A1A1A", "#B8B8B8", tuple(OKABE_ITO[name] for name in _ON_LIGHT))
_DARK = Page("#14171A", "#E8E8E8", "#5C6166", tuple(OKABE_ITO[name] for name in _ON_DARK))


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
        with plt.rc_context(_rc(_DARK if dark else _LIGHT)):
            yield
    finally:
        _is_active.reset(token)


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


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that many inches, in the theme that is active or else the light one."""
    if not _is_active.get():
        with theme():
            return new_figure(width, height)
    figure: Figure = require_pyplot().figure(figsize=(width, height), layout="constrained")
    return figure


def new_axes(width: float, height: float, names: Sequence[str]) -> Axes:
    """Empty axes for two losses in a figure of that many inches."""
    ax = new_figure(width, height).add_subplot()
    dress(ax)
    ax.set(xlabel=names[0], ylabel=names[1])
    return ax


def page_of(ax: Axes) -> Page:
    """The colours for what is drawn on these axes: those of a dark page where the background is dark."""
    from matplotlib.colors import to_rgba

    figure = ax.get_figure(root=True)
    red, green, blue, alpha = to_rgba(ax.get_facecolor())
    if alpha < 0.5 and figure is not None:
        red, green, blue, alpha = to_rgba(figure.get_facecolor())
    is_dark = alpha >= 0.5 and 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.4
    return _DARK if is_dark else _LIGHT


def dress(ax: Axes) -> None:
    """Gives axes of ours the page's frame and ticks; matplotlib would read them when it draws, outside the theme."""
    page = page_of(ax)
    ax.tick_params(color=page.ink, labelcolor=page.ink, labelsize=8, width=THIN, length=3)
    if ax.name == "3d":
        return
    for side, spine in ax.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(page.ink)
        spine.set_linewidth(THIN)


def add_legend(ax: Axes, **options: Any) -> None:
    """A legend to the right of the axes, clear of the data; none where nothing has a label."""
    if ax.get_legend_handles_labels()[0]:
        place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0, "frameon": False}
        ax.legend(**{**place, "fontsize": 8, "labelcolor": page_of(ax).ink, **options})


def _rc(page: Page) -> dict[str, Any]:
    from cycler import cycler

    colored = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color")
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
