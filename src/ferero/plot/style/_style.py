"""The one visual language of every picture: colours, widths and sizes, on a light or a dark page.

Colours are read from the page that is drawn on, so a figure made inside ``theme(dark=True)`` and axes that a
user darkened by other means look the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ferero.errors import MissingExtraError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes

__all__ = [
    "BOLD",
    "DASHES",
    "DOT",
    "LINE",
    "OKABE_ITO",
    "RING",
    "SHADE",
    "THIN",
    "Page",
    "drawing",
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
DASHES = (0, (5, 3))  # of a line that is wanted: points drawn, points left out

_is_active: ContextVar[bool] = ContextVar("ferero_theme", default=False)


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


_LIGHT = Page(
    paper="#FFFFFF",
    ink="#1A1A1A",
    pale="#BDBDBD",
    faint=0.5,
    series=_named("blue vermillion green purple orange sky"),  # yellow is lost on white
    sweep=_named("blue sky green orange vermillion purple"),
)
_DARK = Page(
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
        with plt.rc_context(_rc(_DARK if dark else _LIGHT)):
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
    return _DARK if is_dark else _LIGHT


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
