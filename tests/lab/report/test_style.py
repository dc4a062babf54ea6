"""The same name has the same colour everywhere, and neighbours can be told apart."""

from __future__ import annotations

import pytest
from tests.lab.report.stories import METHODS, bars, curves, parallel, plane, profile, short_curves

from ferero_lab.report.panels import Bars, Curve, FrontPanel, FrontPoint, Lines, Segment
from ferero_lab.report.style import INK, MARKERS, PAPER, SERIES, Palette, legend_keys


def named(*labels: str) -> Lines:
    return Lines("", "x", "y", [Curve([0, 1], [0, 1], label) for label in labels])


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_a_name_has_one_colour_in_every_kind_of_panel():
    palette = Palette([[plane("", 0), curves(False)], [bars(), profile(), parallel()]])
    assert [palette.tone(method) for method in METHODS] == list(SERIES[:5])
    assert palette.tone("unheard of") == INK


def test_colours_are_shared_only_by_names_that_never_meet():
    palette = Palette([[named(*"abcdefgh")], [named("x", "y"), named("z")], [named("a", "z")]])
    assert palette.tone("x") == SERIES[8]
    assert palette.tone("y") == SERIES[9]
    assert palette.tone("z") not in {palette.tone("a"), palette.tone("x"), palette.tone("y")}


def test_a_crowd_is_spread_along_a_sweep():
    names = [str(i) for i in range(25)]
    palette = Palette([[named(*names)], [named("3", "other")]])
    tones = [palette.tone(name) for name in names]
    assert len({tone.light for tone in tones}) == 25
    assert len({tone.dark for tone in tones}) == 25
    assert palette.tone("other") != palette.tone("3")


@pytest.mark.parametrize("tone", SERIES, ids=lambda tone: tone.light)
def test_colours_are_seen_on_their_page(tone):
    assert contrast(tone.light, PAPER.light) > 2
    assert contrast(tone.dark, PAPER.dark) > 3.5


def test_every_colour_of_the_day_has_one_of_the_night():
    night = Palette([[plane("", 0), curves(True)]]).night()
    assert night[PAPER.light] == PAPER.dark
    for method in METHODS:
        tone = Palette([[plane("", 0)]]).tone(method)
        assert night[tone.light] == tone.dark
        assert night[tone.shade().light] == tone.shade().dark


def test_places_have_different_markers_until_they_run_out():
    points = [FrontPoint((0, 0), "g", place=str(i)) for i in range(10)]
    palette = Palette(
        [[FrontPanel("", "ab", points)], [FrontPanel("", "ab", [FrontPoint((0, 0), "g", place="elsewhere")])]]
    )
    assert len({palette.marker(str(i)).plane for i in range(8)}) == 8
    assert palette.marker("9") in MARKERS
    assert palette.marker("elsewhere") == palette.marker("") == MARKERS[0]


def test_the_legend_names_all_that_is_shown():
    panels = [plane("", 0), short_curves()]
    keys = legend_keys(panels, Palette([panels]))
    assert [(key.kind, key.text) for key in keys] == [
        *[("group", method) for method in METHODS],
        ("group", "one graph"),
        ("group", "a loop"),
        *[("place", ray) for ray in ("ray 1 : 3", "ray 1 : 1", "ray 3 : 1")],
        ("role", "preference"),
        ("role", "true front"),
        ("role", "trajectory"),
        ("hollow", "hollow: not met"),
    ]
    by_text = {key.text: key for key in keys}
    assert by_text["a loop"].is_dashed
    assert by_text["a loop"].marker is None
    assert by_text["FERERO"].marker is not None


def test_the_legend_of_little_is_little():
    one = FrontPanel("", "ab", [FrontPoint((1, 2), "g", place="p")], [Segment((0, 0), (1, 1))])
    empty = Bars("", "", (), (), ())
    assert [key.text for key in legend_keys([one], Palette([[one]]))] == ["g", "preference"]
    assert legend_keys([empty], Palette([[empty]])) == []
