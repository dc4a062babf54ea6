"""The legend of a section: one for all its panels, in the words of the page and of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ferero_lab.report.look import INK, MARKS, PALE, SOFT, Look, Mark, Tone, panel_names
from ferero_lab.report.panels import FrontPanel, Lines, Panel

__all__ = ["Key", "legend_keys"]


@dataclass(frozen=True)
class Key:
    """One entry.

    Attributes:
        kind: "group" (a colour), "place" (a marker), "role" (what was wanted, the true front, the ways) or
            "hollow", which explains and cannot be hidden.
        name: what the traces call it.
        text: what is read.
        tone: its colour.
        mark: its marker; None for a line.
        is_dashed: for a line.
    """

    kind: str
    name: str
    text: str
    tone: Tone
    mark: Mark | None = None
    is_dashed: bool = False


def legend_keys(panels: Sequence[Panel], look: Look) -> list[Key]:
    """All that these panels show, each once."""
    fronts = [panel for panel in panels if isinstance(panel, FrontPanel)]
    points = [point for front in fronts for point in front.points]
    groups = dict.fromkeys(name for panel in panels for name in panel_names(panel))
    places = dict.fromkeys(point.place for point in points if point.place)
    keys = [_group_key(name, panels, look) for name in groups]
    if len(places) > 1:
        keys += [Key("place", name, name, INK, look.mark(name)) for name in places if name not in groups]
    spatial = [front for front in fronts if len(front.names) in {2, 3}]
    if any(len(front.segments) for front in fronts):
        keys.append(Key("role", "wanted", "wanted", SOFT, is_dashed=True))
    shown = [front.truth_label for front in fronts if len(front.truth)]
    if shown:
        keys.append(Key("role", "truth", shown[0], PALE))
    if any(len(point.path) for front in spatial for point in front.points):
        keys.append(Key("role", "path", "way there", SOFT))
    if not all(point.ok for point in points):
        keys.append(Key("hollow", "", "hollow: did not arrive", SOFT))
    return keys


def _group_key(name: str, panels: Sequence[Panel], look: Look) -> Key:
    """A line where only curves bear the name, else a dot."""
    shown = [panel for panel in panels if name in panel_names(panel)]
    curves = [line for panel in shown if isinstance(panel, Lines) for line in panel.lines if line.label == name]
    if all(isinstance(panel, Lines) for panel in shown):
        return Key("group", name, name, look.tone(name), is_dashed=all(line.dashed for line in curves))
    return Key("group", name, name, look.tone(name), MARKS[0])
