"""A self-contained HTML page: text, tables and pictures in one file that asks the network for nothing."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from ferero_lab.report.picture import Picture

__all__ = ["Page"]

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1a1a; --soft: #5f6368; --line: #dadce0;
  --good: #00704f; --fair: #9a4a00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e8e8e8; --soft: #a0a6ad;
  --line: #33383d; --good: #4cc9a0; --fair: #f0b060; --bad: #ff8a80; } }
body { background: var(--paper); color: var(--ink); margin: 0 auto; max-width: 54rem;
  padding: 2.5rem 1.25rem 4rem;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .5rem; }
p { margin: .5rem 0; }
pre { border-left: 3px solid var(--line); font: .9rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
  margin: .8rem 0; overflow-x: auto; padding: .2rem 0 .2rem .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; margin: .8rem 0;
  white-space: nowrap; }
th { border-bottom: 1px solid var(--ink); font-weight: 600; text-align: right; }
td { border-bottom: 1px solid var(--line); text-align: right; }
th, td { padding: .3rem .75rem; }
th:first-child, td:first-child { padding-left: 0; text-align: left; }
td.converged { color: var(--good); } td.unattainable { color: var(--fair); }
td.max_iter, td.stalled, td.non_finite { color: var(--bad); }
figure { margin: 1.2rem 0; }
figure img { height: auto; max-width: 100%; }
figcaption, footer { color: var(--soft); font-size: .88rem; }
footer { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: .8rem; }
""".strip()


class Page:
    """An HTML page, built from top to bottom; all text is escaped.

    Args:
        title: of the page, and its first heading.
    """

    def __init__(self, title: str) -> None:
        self._title = escape(title)
        self._parts = [f"<h1>{self._title}</h1>"]

    def heading(self, text: str) -> None:
        """Begins a section."""
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Adds a paragraph."""
        self._parts.append(f"<p>{escape(text)}</p>")

    def verbatim(self, text: str) -> None:
        """Adds text whose line breaks count."""
        self._parts.append(f"<pre>{escape(text)}</pre>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Adds a table; a cell that is a run's status is coloured by its class."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "\n".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
        self._parts.append(
            f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
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

    def footer(self, text: str) -> None:
        """Adds the last line."""
        self._parts.append(f"<footer>{escape(text)}</footer>")

    def render(self) -> bytes:
        """The page as UTF-8."""
        body = "\n".join(self._parts)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{self._title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
        ).encode()


def _cell(text: str) -> str:
    words = escape(text)
    is_status = text in {"converged", "max_iter", "unattainable", "stalled", "non_finite"}
    return f'<td class="{words}">{words}</td>' if is_status else f"<td>{words}</td>"


def _embed(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
