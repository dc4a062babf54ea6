"""What a run leaves behind: one folder with its configuration, its figures as data, pictures and a page."""

from __future__ import annotations

from ferero.cli import to_json
from ferero_lab.report.folder import check_folder, configuration, write_file, write_folder
from ferero_lab.report.page import HtmlPage
from ferero_lab.report.picture import Picture, draw
from ferero_lab.report.story import story_files

__all__ = [
    "HtmlPage",
    "Picture",
    "check_folder",
    "configuration",
    "draw",
    "story_files",
    "to_json",
    "write_file",
    "write_folder",
]
