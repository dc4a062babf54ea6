"""Matrices: what is given is shown, what is missing is blank, and labels find room on a page and on paper."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from tests.lab.report.stories import SENTENCE, alignment, bounded, spectrogram
from tests.lab.report.test_plotly_panels import drawn

from ferero.errors import InputError
from ferero_lab.report.panels import Curve, Heat, Level, Lines, Mark, edges
from ferero_lab.report.paper_heat import stagger
from ferero_lab.report.paper_panels import section_figure
from ferero_lab.report.style import Palette, legend_keys


@pytest.fixture
def paper():
    """Draws one panel; the axes of the panel itself."""
    pyplot.switch_backend("agg")
    figures = []

    def draw(panel):
        figures.append(section_figure([panel], Palette([[panel]])))
        figures[-1].draw_without_rendering()
        return figures[-1].axes[0]

    yield draw
    for figure in figures:
        pyplot.close(figure)


def parts(ax, kind) -> list:
    return [child for child in ax.get_children() if isinstance(child, kind)]


def test_the_page_has_the_matrix_with_blanks():
    panel = Heat("t", "time", "bin", [[1.0, math.nan, None], [-2.0, math.inf, 3.25]], [0.5, 1.0, 1.5], ("low", "high"))
    result = drawn(panel)
    (trace,) = result.data
    assert trace["z"] == [[1.0, None, None], [-2.0, None, 3.25]]
    assert trace["x"] == [0.5, 1.0, 1.5]
    assert trace["y"] == [0, 1]
    assert result.layout["xaxis"]["range"] == [0.25, 1.75]
    assert result.layout["yaxis"]["range"] == [-0.5, 1.5]
    assert result.layout["yaxis"]["ticktext"] == ["low", "high"]
    assert result.layout["yaxis"]["labelalias"] == {"0": "low", "1": "high"}
    assert trace["hovertemplate"] == "time: %{x:.4~g}<br>bin: %{y}<br><b>value: %{z:.4~g}</b><extra></extra>"
    assert drawn(replace(panel, top_down=True)).layout["yaxis"]["range"] == [1.5, -0.5]


def test_columns_are_numbered_without_positions():
    assert drawn(Heat("", "", "", np.zeros((2, 3)))).data[0]["x"] == [0, 1, 2]


def test_the_page_has_all_marks():
    lines, spots = drawn(spectrogram()), drawn(alignment())
    assert [note["text"] for note in lines.layout["annotations"]] == list(SENTENCE)
    assert [note["name"] for note in lines.layout["annotations"]] == ["mark"] * len(SENTENCE)
    assert lines.data[1]["hovertext"][::3] == list(SENTENCE)
    assert spots.layout["annotations"] == []
    assert spots.data[1]["y"] == list(range(len(SENTENCE)))
    assert spots.data[1]["hovertext"] == list(SENTENCE)


def test_marks_beside_the_matrix_or_nowhere_are_left_out():
    marks = [Mark(-3, "before"), Mark(math.nan, "nowhere"), Mark(1, "here"), Mark(1, "no row", row=math.nan)]
    result = drawn(Heat("", "", "", np.ones((2, 3)), marks=marks))
    assert [note["text"] for note in result.layout["annotations"]] == ["here"]
    assert len(result.data) == 2


def test_texts_of_a_matrix_are_escaped():
    evil = "<i>%{y}"
    panel = Heat(evil, evil, evil, [[1.0, 2.0]], (), [evil], evil, [Mark(0, evil), Mark(1, evil, row=0)])
    result = drawn(panel)
    text = json.dumps([result.data, result.layout])
    assert "<i>" not in text
    assert "&lt;i&gt;%&#123;y}" in text


def test_many_lines_do_not_hide_the_matrix(paper):
    panel = Heat("", "", "", np.ones((10, 100)), marks=[Mark(i, "") for i in range(100)])
    assert drawn(panel).data[1]["y"][:2] == [8.5, 9.5]
    assert drawn(replace(panel, marks=panel.marks[:60])).data[1]["y"][:2] == [-0.5, 9.5]
    assert drawn(replace(panel, top_down=True)).data[1]["y"][:2] == [0.5, -0.5]
    (rules,) = parts(paper(panel), LineCollection)
    assert rules.get_segments()[0].tolist() == [[0, 8.5], [0, 9.5]]


def test_a_page_stays_small():
    values = np.random.default_rng(0).random((80, 5000)) * 10.0 ** np.random.default_rng(1).integers(
        -200, 1, (80, 5000)
    )
    (trace,) = drawn(Heat("", "", "", values)).data
    assert len(trace["x"]) <= 600
    assert len(json.dumps(trace["z"])) < 80 * 600 * 10
    assert np.mean(trace["z"]) == pytest.approx(values[:, :4995].mean(), rel=0.01)


def test_wide_only_where_it_needs_to_be():
    assert drawn(spectrogram()).is_wide
    assert not drawn(Heat("", "", "", np.ones((3, 3)))).is_wide
    assert drawn(Heat("", "", "", np.ones((3, 3)), marks=[Mark(1, "m")] * 13)).is_wide


def test_the_paper_has_the_matrix_and_the_marks(paper):
    ax = paper(spectrogram())
    (mesh,) = parts(ax, QuadMesh)
    assert mesh.get_array().shape == (80, 200)
    assert mesh.get_array().mask.sum() == 80 * 10
    assert len(parts(ax, LineCollection)[0].get_segments()) == len(SENTENCE)
    assert ax.get_ylim() == (-0.5, 79.5)
    assert len(ax.figure.axes) == 2

    ax = paper(alignment())
    (path,) = parts(ax, PathCollection)
    assert path.get_offsets()[:, 1].tolist() == list(range(len(SENTENCE)))
    assert ax.get_ylim() == (len(SENTENCE) - 0.5, -0.5)


def test_labels_on_paper_do_not_touch(paper):
    ax = paper(spectrogram())
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == len(SENTENCE)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[i + 1 :])
    assert not any(ax.title.get_window_extent().overlaps(box) for box in boxes)


def test_texts_go_to_the_lowest_line_with_room():
    assert stagger([0, 1, 2, 2.5, 3], [1, 1, 1, 1, 1]) == [0, 0, 0, 1, 0]
    assert stagger([0, 0, 0, 0], [1, 1, 1, 1]) == [0, 1, 2, None]
    assert stagger([], []) == []


def test_columns_end_halfway():
    assert edges([0.0, 1.0, 3.0]) == [-0.5, 0.5, 2.0, 4.0]
    assert edges([7.0]) == [6.5, 7.5]
    assert edges([]) == [-0.5, 0.5]


def test_a_matrix_has_no_legend():
    assert legend_keys([spectrogram(), alignment()], Palette([[spectrogram(), alignment()]])) == []


def test_levels_on_paper(paper):
    before = len(paper(replace(bounded(), levels=())).lines)
    ax = paper(bounded())
    assert len(ax.lines) == before + 1
    assert ax.lines[-1].get_ydata() == [1.2, 1.2]
    assert [text.get_text() for text in ax.texts] == ["cpc <= 1.2"]
    crowd = [Level(1 + 0.01 * i, f"level {i}") for i in range(4)]
    boxes = [text.get_window_extent() for text in paper(replace(bounded(), levels=crowd)).texts]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[i + 1 :])
    log = Lines("", "", "", [Curve([1, 2], [1, 2], "l")], log_y=True, levels=[Level(0.0, "never"), Level(0.1, "low")])
    assert [text.get_text() for text in paper(log).texts] == ["low"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"values": [[1, 2], [1]]}, r"values: expected rows of one length, found 1 to 2; fill up with NaN\."),
        ({"x": [1]}, r"x: expected one position for each of 2 columns, found 1\."),
        ({"x": [1, 1]}, r"x: expected increasing positions, found some that are not; sort the columns\."),
        ({"rows": ["a"]}, r"rows: expected one name for each of 3 rows, found 1\."),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        Heat(**{"title": "", "x_label": "", "y_label": "", "values": np.ones((3, 2)), **wrong})
