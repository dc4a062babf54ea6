"""From a story to the files of a run folder."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ferero.cli import to_json
from ferero_lab.report.look import Look
from ferero_lab.report.panels import Panel
from ferero_lab.report.paper_panels import section_figure
from ferero_lab.report.picture import print_figure
from ferero_lab.report.story_page import story_page

if TYPE_CHECKING:
    from ferero_lab.experiments.experiment import Story

__all__ = ["section_names", "story_files"]


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
    look = Look(section.panels for section in story.sections)
    files = {
        "report.html": story_page(story, config, look),
        "measures.json": to_json(story.measures).encode(),
        "config.json": to_json(dict(config)).encode(),
    }
    for section, name in zip(story.sections, section_names([s.title for s in story.sections]), strict=True):
        if len(section.panels):
            files[f"{name}.png"], files[f"{name}.svg"] = _print(section.panels, look)
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


def _print(panels: Sequence[Panel], look: Look) -> tuple[bytes, bytes]:
    return print_figure(lambda: section_figure(panels, look))
