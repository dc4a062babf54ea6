"""Pictures as bytes, for files and for pages in light and dark mode."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "draw", "print_figure"]

_DOTS_PER_INCH = 160
_PRINT_DOTS_PER_INCH = 300


@dataclass(frozen=True)
class Picture:
    """One picture in the forms that a report needs.

    Attributes:
        png: on a light page.
        dark: the same as PNG on a dark page.
        svg: on a light page.
        width: in CSS pixels.
    """

    png: bytes
    dark: bytes
    svg: bytes
    width: int


def draw(make: Callable[[], Figure]) -> Picture:
    """The picture that ``make`` draws with `ferero.plot`, on a light page and on a dark one.

    Raises:
        MissingExtraError: without matplotlib.
    """
    from ferero.plot import theme
    from ferero.plot.style import require_pyplot

    pyplot = require_pyplot()
    pyplot.switch_backend("agg")  # no window, wherever this runs
    forms: dict[bool, tuple[bytes, bytes, int]] = {}
    for is_dark in (False, True):
        with theme(dark=is_dark), pyplot.rc_context({"svg.hashsalt": "ferero"}):
            figure = make()
            try:
                forms[is_dark] = (
                    _save(figure, "png"),
                    _save(figure, "svg"),
                    round(96 * figure.get_figwidth()),
                )
            finally:
                pyplot.close(figure)
    return Picture(png=forms[False][0], dark=forms[True][0], svg=forms[False][1], width=forms[False][2])


def print_figure(make: Callable[[], Figure]) -> tuple[bytes, bytes]:
    """The picture that ``make`` draws on a light page, for a paper: PNG and SVG.

    Raises:
        MissingExtraError: without matplotlib.
    """
    from ferero.plot import theme
    from ferero.plot.style import require_pyplot

    pyplot = require_pyplot()
    pyplot.switch_backend("agg")
    with theme(), pyplot.rc_context({"svg.hashsalt": "ferero"}):
        figure = make()
        try:
            return _save(figure, "png", _PRINT_DOTS_PER_INCH), _save(figure, "svg")
        finally:
            pyplot.close(figure)


def _save(figure: Figure, form: str, dots: int = _DOTS_PER_INCH) -> bytes:
    buffer = io.BytesIO()
    undated = {"Date": None} if form == "svg" else {}  # the same run gives the same file
    figure.savefig(buffer, format=form, dpi=dots, metadata=undated)
    return buffer.getvalue()
