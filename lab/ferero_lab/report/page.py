"""A self-contained HTML page: text, tables, pictures and interactive figures in one file that loads nothing.

`HtmlPage` collects what to show, and template/page.html, filled by jinja2, says how. Figures need plotly.js, once, and
template/graphs.js, which draws them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from ferero.errors import MissingExtraError
from ferero_lab.report.picture import Picture
from ferero_lab.report.plotly_frame import PlotlyFigure
from ferero_lab.report.style import Key, text_width

__all__ = ["HtmlPage"]

_TEMPLATES = Path(__file__).parent / "template"
"""The page as an editor opens it: page.html, its stylesheets and its script."""

_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:\">"
)
"""Nothing is fetched, whatever a script may try. (The buttons are named below one by one, since plotly's own choice
has one that sends the data to its maker.)"""

_MOST_ROWS = 30  # of a table that is shown without a scroll bar of its own
_SENTENCE = 36  # Latin letters: a column with a longer cell is broken into lines
_STATUSES = {"converged", "max_iter", "unattainable", "stalled", "non_finite"}


class HtmlPage:
    """An HTML page, built from top to bottom; all text is escaped.

    Args:
        title: of the page, and its first heading.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[dict[str, Any]] = []
        self._graphs: list[PlotlyFigure] = []
        self._night: dict[str, str] = {}

    def heading(self, text: str) -> None:
        """Begins a section."""
        self._parts.append({"is": "heading", "text": text})

    def subheading(self, text: str) -> None:
        """Begins a part of a section."""
        self._parts.append({"is": "subheading", "text": text})

    def note(self, text: str) -> None:
        """Adds a paragraph in small print."""
        self._parts.append({"is": "note", "text": text})

    def text(self, text: str) -> None:
        """Adds a paragraph."""
        self._parts.append({"is": "text", "text": text})

    def verbatim(self, text: str) -> None:
        """Adds text whose line breaks count."""
        self._parts.append({"is": "verbatim", "text": text})

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False) -> None:
        """Adds a table; a cell that is a run's status is coloured by its class, and sentences are broken into lines.

        Args:
            header: (columns,).
            rows: (rows, columns).
            words: the cells are words, to be broken into lines, not figures in columns.
        """
        long = set() if words else {i for row in rows for i, cell in enumerate(row) if text_width(cell) > _SENTENCE}
        self._parts.append(
            {
                "is": "table",
                "is_long": len(rows) > _MOST_ROWS,
                "is_words": words,
                "head": [{"text": cell, "kind": "sentence" if i in long else ""} for i, cell in enumerate(header)],
                "rows": [[_cell(cell, i in long) for i, cell in enumerate(row)] for row in rows],
            }
        )

    def picture(self, picture: Picture, caption: str) -> None:
        """Adds a picture in its light and its dark form; the caption is also what a screen reader says."""
        light, dark = _embed(picture.png), _embed(picture.dark)
        shown = {"is": "picture", "light": light, "dark": dark, "width": picture.width, "caption": caption}
        self._parts.append(shown)

    def graphs(self, graphs: Sequence[PlotlyFigure], keys: Sequence[Key], night: Mapping[str, str]) -> None:
        """Adds interactive figures, side by side where there is room, below one legend that shows and hides.

        Args:
            graphs: the figures.
            keys: the legend.
            night: what each colour becomes on a dark page.
        """
        first = len(self._graphs) + 1
        self._graphs += graphs
        self._night.update(night)
        figures = [
            {"number": first + i, "title": one.title, "is_wide": one.is_wide, "height": one.layout["height"]}
            for i, one in enumerate(graphs)
        ]
        self._parts.append({"is": "graphs", "keys_shown": [_key(key) for key in keys], "figures": figures})

    def footer(self, text: str) -> None:
        """Adds the last line."""
        self._parts.append({"is": "footer", "text": text})

    def render(self) -> bytes:
        """The page as UTF-8.

        Raises:
            MissingExtraError: without plotly, for a page with interactive figures.
        """
        code = _scripts(self._graphs, self._night) if self._graphs else ""
        filled = _template().render(title=self._title, parts=self._parts, policy=_POLICY, scripts=code)
        return filled.encode()


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template("page.html")


def _cell(text: str, is_long: bool) -> dict[str, str]:
    return {"text": text, "kind": text if text in _STATUSES else "sentence" if is_long else ""}


def _key(key: Key) -> dict[str, Any]:
    return {
        "is_hollow": key.kind == "hollow",
        "kind": key.kind,
        "name": key.name,
        "text": key.text,
        "colours": f"--light:{key.tone.light};--dark:{key.tone.dark}",
        "glyph": "" if key.marker is None else key.marker.glyph,
        "stroke": "stroke dashed" if key.is_dashed else "stroke thin" if key.name == "path" else "stroke",
    }


def _embed(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _scripts(graphs: Sequence[PlotlyFigure], night: Mapping[str, str]) -> str:
    """The end of a page with figures in the places ``graph-1``, ``graph-2``, ...

    Args:
        graphs: in the order of their places.
        night: what each colour becomes on a dark page.

    Raises:
        MissingExtraError: without plotly.
    """
    figures = [{"data": graph.data, "layout": graph.layout} for graph in graphs]
    data = json.dumps({"graphs": figures, "night": dict(night)}, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    draw = (_TEMPLATES / "graphs.js").read_text(encoding="utf-8").strip()
    return (
        f'<script type="application/json" id="graphs">{data}</script>\n'
        f"<script>{_plotly()}</script>\n<script>\n{draw}\n</script>"
    )


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("report: plotly is not installed; it comes with pip install ferero-lab.") from None
    code: str = get_plotlyjs()
    return code.replace("</script", "<\\/script")
