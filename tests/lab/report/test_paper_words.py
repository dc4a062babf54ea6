"""Chinese on paper, with a font for it and without; and sentences in tables."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from matplotlib import font_manager, pyplot
from tests.lab.report.stories import SENTENCE, alignment, heard, spectrogram

from ferero_lab.experiments.experiment import Section, Story
from ferero_lab.report import paper_words, story_files
from ferero_lab.report.page import HtmlPage
from ferero_lab.report.panels import Curve, Lines
from ferero_lab.report.paper_panels import section_figure
from ferero_lab.report.paper_words import can_print, families, paper_lines, paper_text
from ferero_lab.report.style import Palette, text_width

CHINESE = Lines(SENTENCE, "时间", "损失", [Curve([0, 1], [0, 1], "普通话")])


@pytest.fixture
def no_font(monkeypatch):
    monkeypatch.setattr(paper_words, "_chinese_font", lambda: None)


def texts_of(panel) -> list[str]:
    figure = section_figure([panel], Palette([[panel]]))
    figure.draw_without_rendering()
    ax = figure.axes[0]
    found = [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.texts)]
    found += [label.get_text() for label in ax.get_yticklabels()]
    found += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    pyplot.close(figure)
    return found


def test_without_a_font_words_are_counted(no_font):
    assert not can_print("天")
    assert paper_text("a 今天 b 好") == "a [2 characters] b [1 character]"
    assert paper_text("pīnyīn: $5\n<= ±") == "pīnyīn: \\$5\n<= ±"
    assert f"[{len(SENTENCE)} characters]" in texts_of(CHINESE)
    assert "[3 characters]" in texts_of(CHINESE)


def test_without_a_font_signs_are_numbered_and_the_axis_says_so(no_font):
    numbers = [str(i + 1) for i in range(len(SENTENCE))]
    for panel in (spectrogram(), alignment()):
        found = texts_of(panel)
        assert set(numbers) <= set(found)
        assert "time (s)\n(numbers: names in their order, which no font here can print)" in found
        assert not any(can_print(sign) or sign in "".join(found) for sign in SENTENCE)


def test_without_a_font_all_files_are_made_without_a_warning(no_font):
    files = story_files(Story("语音", "", [Section("语音", "", [spectrogram(), alignment(), CHINESE])]), {})
    assert SENTENCE in files["report.html"].decode()
    assert files["section.png"].startswith(b"\x89PNG")


@pytest.mark.skipif(not can_print(SENTENCE), reason="there is no Chinese font")
def test_with_a_font_words_are_printed():
    assert set(SENTENCE) <= set(texts_of(spectrogram()))
    assert set(SENTENCE) <= set(texts_of(alignment()))
    assert "普通话" in texts_of(CHINESE)
    files = story_files(Story("", "", [Section("s", "", [spectrogram(), alignment(), CHINESE])]), {})
    assert "普通话" in files["s.svg"].decode()


@pytest.mark.parametrize(
    ("installed", "chosen"),
    [
        (["WenQuanYi Zen Hei", "Noto Sans CJK JP", "Noto Sans CJK SC"], "Noto Sans CJK SC"),
        (["DejaVu Sans", "SimHei"], "SimHei"),
        (["DejaVu Sans"], None),
    ],
)
def test_the_best_installed_font_is_chosen(monkeypatch, installed, chosen):
    fonts = [SimpleNamespace(name=name, fname=__file__) for name in installed]
    fonts.append(SimpleNamespace(name="Noto Sans CJK SC", fname="no/such/file"))
    monkeypatch.setattr(font_manager.fontManager, "ttflist", fonts)
    assert paper_words._chinese_font.__wrapped__() == chosen


def test_matplotlibs_own_font_comes_first():
    assert families()[: len(pyplot.rcParams["font.family"])] == pyplot.rcParams["font.family"]


def test_chinese_is_twice_as_wide(no_font):
    assert text_width("ab今天") == 6
    assert paper_lines("word " * 8, 20) == "word word word word\nword word word word"


def test_only_columns_with_sentences_are_broken_into_lines():
    page = HtmlPage("t")
    page.table(heard().header, heard().rows)
    page.table(["a", "b"], [])
    html = page.render().decode()
    assert f'<td>BAC009S0252W0170</td><td class="sentence">{SENTENCE}</td>' in html
    assert '<th>utterance</th><th class="sentence">said</th>' in html
    assert "<td>8.1 %</td>" in html
    assert "<th>a</th><th>b</th>" in html
