"""From a story to files: complete, escaped, the same every time, readable without a network."""

from __future__ import annotations

import io
import json
import re
import struct
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from matplotlib import pyplot
from matplotlib.text import Text
from tests.lab.report.stories import CONFIG, METHODS, bars, parallel, plane, rich_story, space, spectrogram
from tests.lab.report.test_plotly_panels import EMPTY

from ferero.errors import MissingExtraError
from ferero_lab.experiments.experiment import Section, Story
from ferero_lab.report import story_files
from ferero_lab.report.panels import Curve, FrontPanel, FrontPoint, Lines, Table
from ferero_lab.report.paper_panels import section_figure
from ferero_lab.report.story import section_names
from ferero_lab.report.style import Palette


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return story_files(rich_story(), CONFIG)


class Outline(HTMLParser):
    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.in_script = False
        self.feed(page.decode())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.in_script = tag == "script"
        self.ids += [value for key, value in attrs if key == "id"]
        self.links += [value for key, value in attrs if key in {"src", "href", "srcset"}]

    def handle_endtag(self, tag):
        self.in_script = False

    def handle_data(self, data):
        if not self.in_script:
            self.words += data


def test_a_run_folder_has_all_its_files(files):
    pictures = ("rays-with-two-losses", "three-losses", "six-losses", "convergence-and-cost", "speech")
    expected = {"report.html", "measures.json", "config.json"}
    expected |= {f"{name}.{form}" for name in pictures for form in ("png", "svg")}
    assert set(files) == expected
    assert json.loads(files["measures.json"])["nothing"] is None
    assert json.loads(files["config.json"])["options"]["seeds"] == 3
    assert len(files["report.html"]) < 6_000_000


@pytest.mark.slow
def test_the_same_story_gives_the_same_bytes():
    story = Story("t", "l", [Section("s", "", [plane("", 0), parallel(), spectrogram()])])
    once, again = story_files(story, CONFIG), story_files(story, CONFIG)
    assert {name for name in once if once[name] != again[name]} == set()


def test_the_page_says_it_all_and_refers_to_nothing(files):
    outline = Outline(files["report.html"])
    assert outline.links == []
    assert outline.ids == [*(f"graph-{i}" for i in range(1, 13)), "graphs"]
    assert "b" not in outline.tags
    for words in ("Losses of <b>two</b> tasks.", "f1 <= 0.44", "Reference point (1, 1).", "versions.torch", "2.13.0"):
        assert words in outline.words
    assert outline.words.index("Rays with two losses") < outline.words.index("Configuration and versions")
    assert "default-src 'none'" in files["report.html"].decode()
    assert files["report.html"].count(b"* plotly.js v") == 1


def test_pictures_are_of_print_size_with_text_as_text(files):
    png = files["rays-with-two-losses.png"]
    width, _ = struct.unpack(">II", png[16:24])
    assert width >= 2000
    svg = ET.parse(io.BytesIO(files["rays-with-two-losses.svg"]))
    texts = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {*METHODS, "f1", "Easy start, exact rays", "ray 1 : 3"} <= set(texts)


@pytest.mark.slow
def test_no_words_of_a_picture_are_cut_off():
    pyplot.switch_backend("agg")
    crowded = [
        replace(panel, title="A title that is longer than its panel") for panel in (space(), plane("", 0), bars())
    ]
    sections = [*(section.panels for section in rich_story().sections), crowded]
    for panels in sections:
        figure = section_figure(panels, Palette(sections))
        figure.draw_without_rendering()
        texts = [text for legend in figure.legends for text in legend.get_texts()]
        for ax in figure.axes:
            texts += [ax.title, *(axis.label for axis in ax._axis_map.values()), *ax.texts]
        for text in filter(Text.get_text, texts):
            box = text.get_window_extent()
            assert figure.bbox.padded(1).contains(box.x0, box.y0), text
            assert figure.bbox.padded(1).contains(box.x1, box.y1), text
        pyplot.close(figure)


def test_nothing_that_a_script_could_end_with():
    evil = "</script><script>alert(1)</script><!--"
    panel = FrontPanel(evil, (evil, "b"), [FrontPoint((1, 2), evil, evil, {evil: evil}, place=evil)])
    section = Section(evil, evil, [panel], [Table([evil], [[evil]], evil, evil)])
    page = story_files(Story(evil, evil, [section]), {evil: evil})
    text = page["report.html"].decode()
    assert "<script>alert" not in text
    assert Outline(page["report.html"]).tags.count("script") == 3
    data = re.search(r'<script type="application/json" id="graphs">(.*?)</script>', text).group(1)
    assert json.loads(data)["graphs"][0]["data"][0]["meta"]["group"] == evil


@pytest.mark.parametrize("panel", EMPTY, ids=lambda panel: type(panel).__name__)
def test_empty_panels_are_drawn(panel):
    files = story_files(Story("t", "l", [Section("s", "", [panel])]), {})
    assert files["s.png"].startswith(b"\x89PNG")


def test_what_is_missing_breaks_no_picture():
    rows = [[None, float("inf")], [1.0, 2.0]]
    panels = [
        FrontPanel("", "ab", [FrontPoint(row, "_g", path=rows, spread=(None, 0.1)) for row in rows], truth=rows),
        Lines("$x$ and $", "$", "", [Curve([1, 2, None], [None, 1, -1], "l", [1, 2, None])], log_x=True, log_y=True),
        Lines("", "", "", [Curve([-1, 0], [-1, 0], "below")], log_x=True, log_y=True),
    ]
    assert "s.svg" in story_files(Story("t", "l", [Section("s", "", panels)]), {})


def test_a_story_without_figures_needs_no_script():
    files = story_files(Story("t", "lead", [Section("s", "words", (), [Table(["a"], [["1"]])])]), {"a": None})
    assert set(files) == {"report.html", "measures.json", "config.json"}
    assert b"<script" not in files["report.html"]


def test_file_names_are_plain_and_different():
    assert section_names(["Über f1 <= 0.3 / more!", "a", "A", "a-3", "", "///"]) == [
        "uber-f1-0-3-more",
        "a",
        "a-3",
        "a-3-4",
        "section",
        "section-6",
    ]


def test_without_plotly_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingExtraError, match=r"report: plotly is not installed.*pip install ferero-lab"):
        story_files(rich_story(), CONFIG)


@pytest.mark.parametrize(("panels", "shape"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3))])
def test_small_panels_stand_side_by_side_and_four_in_two_rows(panels, shape):
    line = Lines("a", "steps", "loss", [Curve([0.0, 1.0], [1.0, 2.0], "one")])
    figure = section_figure([line] * panels, Palette([[line]]))
    grid = figure.axes[0].get_subplotspec().get_gridspec()
    assert (grid.nrows, grid.ncols) == shape
    pyplot.close(figure)
