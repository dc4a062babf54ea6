"""A self-contained HTML page: text, tables, pictures and figures in one file that asks the network for nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from ferero_lab.report.legend import Key
from ferero_lab.report.page_style import GRAPH_STYLE, STYLE
from ferero_lab.report.paper_words import text_width
from ferero_lab.report.picture import Picture
from ferero_lab.report.plotly_frame import Graph
from ferero_lab.report.script import POLICY, scripts

__all__ = ["Page"]

_MOST_ROWS = 30  # of a table that is shown without a scroll bar of its own
_SENTENCE = 36  # Latin letters: a column with a longer cell is broken into lines


class Page:
    """An HTML page, built from top to bottom; all text is escaped.

    Args:
        title: of the page, and its first heading.
    """

    def __init__(self, title: str) -> None:
        self._title = escape(title)
        self._parts = [f"<h1>{self._title}</h1>"]
        self._graphs: list[Graph] = []
        self._night: dict[str, str] = {}

    def heading(self, text: str) -> None:
        """Begins a section."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def subheading(self, text: str) -> None:
        """Begins a part of a section."""
        self._parts.append(f"<h3>{escape(text)}</h3>")

    def note(self, text: str) -> None:
        """Adds a paragraph in small print."""
        self._parts.append(f'<p class="note">{escape(text)}</p>')

    def text(self, text: str) -> None:
        """Adds a paragraph."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def verbatim(self, text: str) -> None:
        """Adds text whose line breaks count."""
        self._parts.append(f"<pre>{escape(text)}</pre>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False) -> None:
        """Adds a table; a cell that is a run's status is coloured by its class, and sentences are broken into lines.

        Args:
            header: (columns,).
            rows: (rows, columns).
            words: the cells are words, to be broken into lines, not figures in columns.
        """
        long = set() if words else {i for row in rows for i, cell in enumerate(row) if text_width(cell) > _SENTENCE}
        head = "".join(_cell(cell, "th", i in long) for i, cell in enumerate(header))
        lines = ("".join(_cell(cell, "td", i in long) for i, cell in enumerate(row)) for row in rows)
        body = "\n".join(f"<tr>{line}</tr>" for line in lines)
        kind, look = "wide long" if len(rows) > _MOST_ROWS else "wide", ' class="words"' if words else ""
        self._parts.append(
            f'<div class="{kind}"><table{look}>\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody></table></div>"
        )

    def picture(self, picture: Picture, caption: str) -> None:
        """Adds a picture in its light and its dark form; the caption is also what a screen reader says."""
        words = escape(caption)
        self._parts.append(
            '<figure><picture><source media="(prefers-color-scheme: dark)" '
            f'srcset="{_embed(picture.dark)}">\n'
            f'<img width="{picture.width}" alt="{words}" src="{_embed(picture.png)}"></picture>\n'
            f"<figcaption>{words}</figcaption></figure>"
        )

    def graphs(self, graphs: Sequence[Graph], keys: Sequence[Key], night: Mapping[str, str]) -> None:
        """Adds interactive figures, side by side where there is room, below one legend that shows and hides.

        Args:
            graphs: the figures.
            keys: the legend.
            night: what each colour becomes on a dark page.
        """
        first = len(self._graphs) + 1
        figures = "\n".join(_place(first + i, graph) for i, graph in enumerate(graphs))
        legend = "\n".join(_key(key) for key in keys)
        self._graphs += graphs
        self._night.update(night)
        self._parts.append(
            f'<section>\n<div class="keys">\n{legend}\n</div>\n<div class="graphs">\n{figures}\n</div>\n</section>'
        )

    def footer(self, text: str) -> None:
        """Adds the last line."""
        self._parts.append(f"<footer>{escape(text)}</footer>")

    def render(self) -> bytes:
        """The page as UTF-8.

        Raises:
            MissingExtraError: without plotly, for a page with interactive figures.
        """
        body, policy, style = "\n".join(self._parts), "", STYLE
        if self._graphs:
            body += "\n" + scripts(self._graphs, self._night)
            policy, style = f"{POLICY}\n", f"{STYLE}\n{GRAPH_STYLE}"
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f"{policy}"
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{self._title}</title>\n<style>\n{style}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
        ).encode()


def _cell(text: str, tag: str, is_long: bool) -> str:
    words = escape(text)
    is_status = tag == "td" and text in {"converged", "max_iter", "unattainable", "stalled", "non_finite"}
    kind = words if is_status else "sentence" if is_long else ""
    return f'<{tag} class="{kind}">{words}</{tag}>' if kind else f"<{tag}>{words}</{tag}>"


def _place(number: int, graph: Graph) -> str:
    title, kind = escape(graph.title), "graph whole" if graph.is_wide else "graph"
    return (
        f'<figure class="{kind}"><figcaption>{title}</figcaption>\n'
        f'<div id="graph-{number}" style="height:{graph.layout["height"]}px"></div>\n'
        "<noscript><p>This figure needs JavaScript; a picture of it lies beside this page.</p></noscript></figure>"
    )


def _key(key: Key) -> str:
    colours = f"--light:{key.tone.light};--dark:{key.tone.dark}"
    stroke = "stroke dashed" if key.is_dashed else "stroke thin" if key.name == "path" else "stroke"
    sign = f'<span class="{stroke}" style="{colours}"></span>'
    if key.mark is not None:
        sign = f'<span class="sign" style="{colours}">{key.mark.glyph}</span>'
    if key.kind == "hollow":
        return f'<span class="key"><span class="sign" style="{colours}">\u25cb</span>{escape(key.text)}</span>'
    return (
        f'<button type="button" class="key" aria-pressed="true" data-kind="{key.kind}" '
        f'data-name="{escape(key.name)}">{sign}{escape(key.text)}</button>'
    )


def _embed(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
