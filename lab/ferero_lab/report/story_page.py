"""The report of an experiment as one interactive page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ferero_lab.report.legend import legend_keys
from ferero_lab.report.look import Look
from ferero_lab.report.page import Page
from ferero_lab.report.panels import Table
from ferero_lab.report.plotly_panels import graph

if TYPE_CHECKING:
    from ferero_lab.experiments.experiment import Section, Story

__all__ = ["story_page"]


def story_page(story: Story, config: Mapping[str, Any], look: Look) -> bytes:
    """The page: the story's sections in their order, then what was run and with which versions.

    Args:
        story: what to tell.
        config: plain data, nested as it may be; shown as a table with one row for each value.
        look: the colours of the story's panels.

    Raises:
        MissingExtraError: without plotly.
    """
    page = Page(story.title)
    page.text(story.lead)
    if any(len(section.panels) for section in story.sections):
        page.note(
            "Point at a figure to read its values. A click on a name in a legend hides or shows it, a double click "
            "shows it alone."
        )
    for section in story.sections:
        _tell(page, section, look)
    page.heading("Configuration and versions")
    page.table(["setting", "value"], [list(row) for row in _flat(config)], words=True)
    return page.render()


def _tell(page: Page, section: Section, look: Look) -> None:
    page.heading(section.title)
    for paragraph in section.text.split("\n\n"):
        if paragraph.strip():
            page.text(paragraph)
    if len(section.panels):
        page.graphs([graph(panel, look) for panel in section.panels], legend_keys(section.panels, look), look.night())
    for table in section.tables:
        _show(page, table)


def _show(page: Page, table: Table) -> None:
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
