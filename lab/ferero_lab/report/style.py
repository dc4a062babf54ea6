"""Style of a report's charts, which both renderers read: colours, markers and the legend, light and dark.

Colours, widths and dashes come from `ferero.plot.style`; here are those that a report needs besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from unicodedata import east_asian_width

from ferero.plot.style import DARK, LIGHT
from ferero_lab.report.panels import Bars, FrontPanel, Heat, Lines, Panel

__all__ = [
    "GRID",
    "INK",
    "MARKERS",
    "PALE",
    "PAPER",
    "SERIES",
    "SOFT",
    "Key",
    "Marker",
    "Palette",
    "Tone",
    "legend_keys",
    "panel_names",
    "text_width",
]


@dataclass(frozen=True)
class Tone:
    """One colour in its two forms.

    Attributes:
        light: on a light page, #RRGGBB.
        dark: on a dark page.
    """

    light: str
    dark: str

    def shade(self) -> Tone:
        """The same for an area behind lines."""
        return Tone(_faded(self.light, 0.18), _faded(self.dark, 0.26))


INK = Tone(LIGHT.ink, DARK.ink)
PAPER = Tone(LIGHT.paper, DARK.paper)
PALE = Tone(LIGHT.pale, DARK.pale)
SOFT = Tone("#5F6368", "#A0A6AD")
GRID = Tone("#E8EAED", "#2B3035")

_ON_DARK = ("#4C9FE0", "#F47B3A", "#1FC295", "#E39AC6", "#F2BB3D", "#9BDCFF")

SERIES = (
    *(Tone(light, dark) for light, dark in zip(LIGHT.series, _ON_DARK, strict=True)),
    Tone("#7A1F4B", "#C2527F"),
    Tone("#7D7A1E", "#BDB94A"),
    Tone("#6F6F6F", "#9A9A9A"),
    Tone("#4B3F9E", "#9A8CF0"),
)
"""Ten colours that can be told apart; the first six are those of `ferero.plot`, brighter by night."""

_SWEEP = tuple(SERIES[i] for i in (0, 5, 2, 4, 1, 3))


@dataclass(frozen=True)
class Marker:
    """One marker shape, as each renderer calls it.

    Attributes:
        glyph: in a line of text.
        plane: plotly in two dimensions, followed by "-open" where hollow.
        space: plotly in three dimensions, which has fewer.
        hollow: plotly in three dimensions, hollow.
        paper: matplotlib.
    """

    glyph: str
    plane: str
    space: str
    hollow: str
    paper: str


MARKERS = (
    Marker("\u25cf", "circle", "circle", "circle-open", "o"),
    Marker("\u25a0", "square", "square", "square-open", "s"),
    Marker("\u25c6", "diamond", "diamond", "diamond-open", "D"),
    Marker("\u271a", "cross", "cross", "circle-open", "P"),
    Marker("\u25b2", "triangle-up", "circle", "circle-open", "^"),
    Marker("\u25bc", "triangle-down", "square", "square-open", "v"),
    Marker("\u2605", "star", "diamond", "diamond-open", "*"),
    Marker("\u2716\ufe0e", "x", "cross", "circle-open", "X"),
)
"""Eight shapes; in space plotly has the first four of them (its x needs a font that not everyone has)."""

_Names: TypeAlias = Sequence[str]


class Palette:
    """Colours by name and markers by place, given out in the order in which a report shows them.

    Names that meet in no section may share a colour once all colours are taken. A section with more names than
    there are colours spreads them evenly along a sweep of hues.

    Args:
        sections: the panels of each section of the report, which share a legend.
    """

    def __init__(self, sections: Iterable[Sequence[Panel]]) -> None:
        shown = [list(panels) for panels in sections]
        self._tones = _give_tones([_in_order(name for p in panels for name in panel_names(p)) for panels in shown])
        self._markers = _give_markers([_in_order(place for p in panels for place in _places(p)) for panels in shown])

    def tone(self, name: str) -> Tone:
        """Of a group, a line, a series or a method; ink for a name that has none."""
        return self._tones.get(name, INK)

    def knows(self, name: str) -> bool:
        """Whether the name has a colour."""
        return name in self._tones

    def segment_tone(self, group: str) -> Tone:
        """Of a preference's line: its group's, or soft where the group has no colour."""
        return self._tones.get(group, SOFT)

    def marker(self, place: str) -> Marker:
        """Of a place; the first one without."""
        return self._markers.get(place, MARKERS[0])

    def night(self) -> dict[str, str]:
        """What each colour of a light page becomes on a dark one."""
        tones = [INK, PAPER, SOFT, PALE, GRID, INK.shade(), PALE.shade()]
        for tone in self._tones.values():
            tones += [tone, tone.shade()]
        return {tone.light: tone.dark for tone in tones}


def panel_names(panel: Panel) -> list[str]:
    """The names in a panel that have a colour, each once."""
    if isinstance(panel, FrontPanel):
        return _in_order(point.group for point in panel.points)
    if isinstance(panel, Lines):
        return _in_order(line.label for line in panel.lines)
    if isinstance(panel, Heat):
        return []
    return _in_order(panel.series if isinstance(panel, Bars) else panel.methods)


def _places(panel: Panel) -> list[str]:
    return _in_order(point.place for point in panel.points) if isinstance(panel, FrontPanel) else []


def _give_markers(sections: Sequence[_Names]) -> dict[str, Marker]:
    """The first shape that no place beside it has."""
    marks: dict[str, Marker] = {}
    for number, place in enumerate(_in_order(place for places in sections for place in places)):
        beside = {marks[other] for places in sections if place in places for other in places if other in marks}
        marks[place] = next((mark for mark in MARKERS if mark not in beside), MARKERS[number % len(MARKERS)])
    return marks


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _give_tones(sections: Sequence[_Names]) -> dict[str, Tone]:
    crowd = _in_order(name for names in sections if len(names) > len(SERIES) for name in names)
    tones = dict(zip(crowd, _sweep(len(crowd)), strict=True))
    uses = [0] * len(SERIES)
    for name in _in_order(name for names in sections for name in names):
        if name in tones:
            continue
        neighbours = {tones[other] for names in sections if name in names for other in names if other in tones}
        free = [i for i in range(len(SERIES)) if SERIES[i] not in neighbours] or list(range(len(SERIES)))
        chosen = min(free, key=lambda i: uses[i])
        uses[chosen] += 1
        tones[name] = SERIES[chosen]
    return tones


def _sweep(n: int) -> list[Tone]:
    places = [i / max(n - 1, 1) * (len(_SWEEP) - 1) for i in range(n)]
    lights, darks = [tone.light for tone in _SWEEP], [tone.dark for tone in _SWEEP]
    return [Tone(_between(lights, place), _between(darks, place)) for place in places]


def _between(stops: Sequence[str], place: float) -> str:
    low = min(int(place), len(stops) - 2)
    pairs = zip(_parts(stops[low]), _parts(stops[low + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - low)):02X}" for a, b in pairs)


def _parts(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _faded(colour: str, opacity: float) -> str:
    red, green, blue = _parts(colour)
    return f"rgba({red},{green},{blue},{opacity})"


@dataclass(frozen=True)
class Key:
    """One entry.

    Attributes:
        kind: "group" (a colour), "place" (a marker), "role" (a preference's line, the true front, a trajectory) or
            "hollow", which explains and cannot be hidden.
        name: what the traces call it.
        text: what is read.
        tone: its colour.
        marker: its shape; None for a line.
        is_dashed: for a line.
    """

    kind: str
    name: str
    text: str
    tone: Tone
    marker: Marker | None = None
    is_dashed: bool = False


def legend_keys(panels: Sequence[Panel], palette: Palette) -> list[Key]:
    """All that these panels show, each once."""
    fronts = [panel for panel in panels if isinstance(panel, FrontPanel)]
    points = [point for front in fronts for point in front.points]
    groups = dict.fromkeys(name for panel in panels for name in panel_names(panel))
    places = dict.fromkeys(point.place for point in points if point.place)
    keys = [_group_key(name, panels, palette) for name in groups]
    if len(places) > 1:
        keys += [Key("place", name, name, INK, palette.marker(name)) for name in places if name not in groups]
    spatial = [front for front in fronts if len(front.names) in {2, 3}]
    if any(len(front.segments) for front in fronts):
        keys.append(Key("role", "wanted", "preference", SOFT, is_dashed=True))
    shown = [front.truth_label for front in fronts if len(front.truth)]
    if shown:
        keys.append(Key("role", "truth", shown[0], PALE))
    if any(len(point.path) for front in spatial for point in front.points):
        keys.append(Key("role", "path", "trajectory", SOFT))
    if not all(point.ok for point in points):
        keys.append(Key("hollow", "", "hollow: not met", SOFT))
    return keys


def _group_key(name: str, panels: Sequence[Panel], palette: Palette) -> Key:
    """A line where only curves bear the name, else a dot."""
    shown = [panel for panel in panels if name in panel_names(panel)]
    curves = [line for panel in shown if isinstance(panel, Lines) for line in panel.lines if line.label == name]
    if all(isinstance(panel, Lines) for panel in shown):
        return Key("group", name, name, palette.tone(name), is_dashed=all(line.dashed for line in curves))
    return Key("group", name, name, palette.tone(name), MARKERS[0])


def text_width(text: str) -> int:
    """How many Latin letters are as wide: a Chinese one counts for two."""
    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in text)
