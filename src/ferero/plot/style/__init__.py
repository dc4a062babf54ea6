"""The visual language of ferero's pictures, for figures of your own beside them."""

from __future__ import annotations

from ferero.plot.style._clip import check_plane, clip_line, clip_polygon, line_of, view_of
from ferero.plot.style._style import (
    BOLD,
    DARK,
    DASHES,
    DOT,
    LIGHT,
    LINE,
    OKABE_ITO,
    RING,
    SHADE,
    THIN,
    Page,
    drawing,
    finish,
    new_panels,
    new_plane,
    new_space,
    page_of,
    require_pyplot,
    theme,
)

__all__ = [
    "BOLD",
    "DARK",
    "DASHES",
    "DOT",
    "LIGHT",
    "LINE",
    "OKABE_ITO",
    "RING",
    "SHADE",
    "THIN",
    "Page",
    "check_plane",
    "clip_line",
    "clip_polygon",
    "drawing",
    "finish",
    "line_of",
    "new_panels",
    "new_plane",
    "new_space",
    "page_of",
    "require_pyplot",
    "theme",
    "view_of",
]
