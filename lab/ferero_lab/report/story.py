"""The report of an experiment: its story as one interactive page, pictures for a paper, and its measures as data."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ferero.cli import to_json
from ferero_lab.report.page import HtmlPage
from ferero_lab.report.panels import Table
from ferero_lab.report.paper_panels import section_figure
from ferero_lab.report.picture import print_figure
from ferero_lab.report.plotly_panels import graph
from ferero_lab.report.style import Palette, legend_keys

if TYPE_CHECKING:
    from ferero_lab.experiments.experiment import Section, Story

__all__ = ["section_names", "story_files", "story_page"]


def story_files(story: Story, config: Mapping[str, Any]) -> dict[str, bytes]:
    """The report of an experiment: the same story and configuration give the same bytes.

    Args:
        story: what to tell.
        config: what was run and with which versions, plain data; see `configuration`.

    Returns:
        Contents by file name: ``report.html``, ``measures.json``, ``config.json``, and for each section with
        figures its name with ``.png`` and ``.svg``.

    Raises:
        MissingExtraError: without plotly or matplotlib.

    Example:
        >>> write_folder(path, story_files(story, configuration("run synthetic")))  # doctest: +SKIP
    """
    palette = Palette(section.panels for section in story.sections)
    files = {
        "report.html": story_page(story, config, palette),
        "measures.json": to_json(story.measures).encode(),
        "config.json": to_json(dict(config)).encode(),
    }
    for section, name in zip(story.sections, section_names([s.title for s in story.sections]), strict=True):
        if len(section.panels):
            make = partial(section_figure, section.panels, palette)
            files[f"{name}.png"], files[f"{name}.svg"] = print_figure(make)
    return files


def section_names(titles: Sequence[str]) -> list[str]:
    """A file name for each title, without an ending: small letters, digits and dashes, no two alike."""
    names: list[str] = []
    for number, title in enumerate(titles, start=1):
        ascii_only = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
        name = re.sub("[^a-z0-9]+", "-", ascii_only.lower())[:60].strip("-") or "section"
        while name in names:
            name += f"-{number}"
        names.append(name)
    return names


def story_page(story: Story, config: Mapping[str, Any], palette: Palette) -> bytes:
    """The page: the story's sections in their order, then what was run and with which versions.

    Args:
        story: what to tell.
        config: plain data, nested as it may be; shown as a table with one row for each value.
        palette: the colours of the story's panels.

    Raises:
        MissingExtraError: without plotly.
    """
    page = HtmlPage(story.title)
    page.text(story.lead)
    if any(len(section.panels) for section in story.sections):
        page.note(
            "Point at a figure to read its values. A click on a name in a legend hides or shows it, a double click "
            "shows it alone."
        )
    for section in story.sections:
        _tell(page, section, palette)
    page.heading("Configuration and versions")
    page.table(["setting", "value"], [list(row) for row in _flat(config)], words=True)
    return page.render()


def _tell(page: HtmlPage, section: Section, palette: Palette) -> None:
    page.heading(section.title)
    for paragraph in section.text.split("\n\n"):
        if paragraph.strip():
            page.text(paragraph)
    if len(section.panels):
        page.graphs(
            [graph(panel, palette) for panel in section.panels], legend_keys(section.panels, palette), palette.night()
        )
    for table in section.tables:
        _show(page, table)


def _show(page: HtmlPage, table: Table) -> None:
    if table.title:
        page.subheading(table.title)
    page.table(table.header, table.rows)
    if table.note:
        page.note(table.note)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """One row for each value of nested mappings, with the keys on the way to it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        yield name, ", ".join(str(item) for item in value)
    else:
        yield name, "" if value is None else str(value)
