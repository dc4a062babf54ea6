"""Data in, plotly's traces out: coordinates, texts and looks; plotly itself checks every name and value."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import plotly.graph_objects as go
import pytest
from tests.lab.report.stories import (
    EMOTIONS,
    METHODS,
    alignment,
    bars,
    bounded,
    curves,
    parallel,
    plane,
    profile,
    short_curves,
    space,
    spectrogram,
)

from ferero_lab.report.panels import Bars, Curve, FrontPanel, FrontPoint, Heat, Level, Lines, Panel, Profile, Segment
from ferero_lab.report.plotly_frame import PlotlyFigure
from ferero_lab.report.plotly_panels import graph
from ferero_lab.report.style import PAPER, SERIES, Palette

EMPTY = [
    FrontPanel("", ("a", "b"), ()),
    FrontPanel("", ("a", "b", "c"), ()),
    FrontPanel("", EMOTIONS, ()),
    FrontPanel("", (), ()),
    Lines("", "", "", (), log_x=True, log_y=True),
    Lines("", "", "", [Curve((), (), "nothing")]),
    Bars("", "", (), (), ()),
    Profile("", (), (), ()),
    Profile("", EMOTIONS, ("one",), [[]]),
    Lines("", "", "", (), levels=[Level(1.0, "alone"), Level(math.nan, "unknown")]),
    Heat("", "", "", ()),
    Heat("", "", "", [(), ()]),
    Heat("", "", "", [[math.nan]]),
    Heat("", "", "", [[1.0, 1.0]]),
]
FULL = [plane("p", 0), plane("s", 1, spread=True), space(), parallel(), curves(True), short_curves(), bars(), profile()]
FULL += [spectrogram(), alignment(), bounded()]


def drawn(panel: Panel) -> PlotlyFigure:
    """The figure, after plotly has found nothing wrong with it and JSON neither."""
    result = graph(panel, Palette([[panel]]))
    go.Figure(data=result.data, layout=result.layout)
    json.dumps([result.data, result.layout], allow_nan=False)
    return result


def points_of(result: PlotlyFigure) -> list[dict]:
    return [trace for trace in result.data if "markers" in trace["mode"] and trace["meta"]["role"] == ""]


def roles_of(result: PlotlyFigure, role: str) -> list[dict]:
    return [trace for trace in result.data if trace["meta"]["role"] == role]


@pytest.mark.parametrize("panel", [*EMPTY, *FULL], ids=lambda panel: type(panel).__name__)
def test_plotly_takes_every_panel(panel):
    drawn(panel)


def test_a_point_tells_all_it_knows():
    point = FrontPoint((0.25, 1.5), "EPO", "ray 1 : 3", {"weights": "0.3, 0.7", "seed": "4"}, spread=(0.01, 0.2))
    (trace,) = points_of(drawn(FrontPanel("", ("f1", "f2"), [point])))
    assert (trace["x"], trace["y"]) == ([0.25], [1.5])
    assert trace["hovertext"] == [
        "<b>ray 1 : 3</b><br>EPO<br>f1: 0.25 ± 0.01<br>f2: 1.5 ± 0.2<br>weights: 0.3, 0.7<br>seed: 4"
    ]
    assert trace["error_x"]["array"] == [0.01]
    assert trace["error_y"]["array"] == [0.2]
    assert trace["marker"]["color"] == SERIES[0].light


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c"), EMOTIONS], ids=len)
def test_texts_are_escaped_wherever_plotly_reads_html(names):
    evil = "<b>f1 <= 0.3</b> & %{x}"
    safe = "&lt;b&gt;f1 &lt;= 0.3&lt;/b&gt; &amp; %&#123;x}"
    m = len(names)
    point = FrontPoint([1.0] * m, evil, evil, {evil: evil}, place=evil)
    panel = FrontPanel("", [evil] * m, [point], [Segment([0.0] * m, [1.0] * m, evil, "g")])
    text = json.dumps([drawn(panel).data, drawn(panel).layout], ensure_ascii=False)
    text = text.replace(json.dumps(evil), "")  # in meta, which nobody reads as HTML
    assert evil not in text
    assert f"<b>{safe}</b>" in text
    assert f"{safe}: {safe}" in text


@pytest.mark.parametrize("panel", [curves(False), bars(), profile()], ids=lambda panel: type(panel).__name__)
def test_other_panels_escape_too(panel):
    evil = "<i>%{y}"
    fields = {
        Lines: {"x_label": evil, "y_label": evil, "lines": [Curve([0, 1], [0, 1], evil, (1, 1))]},
        Bars: {"y_label": evil, "groups": [evil] * 3, "series": [evil] * 5},
        Profile: {"methods": [evil] * 5, "names": [evil] * 6},
    }
    result = drawn(replace(panel, **fields[type(panel)]))
    text = json.dumps([result.data, result.layout]).replace(f'"group": {json.dumps(evil)}', "")
    assert "<i>" not in text
    assert "&lt;i&gt;%&#123;y}" in text


def test_hollow_is_what_did_not_arrive_and_shapes_are_places():
    points = [FrontPoint((i, i), "g", place=place, ok=i != 1) for i, place in enumerate(["p", "p", "q"])]
    first, second = points_of(drawn(FrontPanel("", ("a", "b"), points)))
    assert first["marker"]["symbol"] == ["circle", "circle-open"]
    assert second["marker"]["symbol"] == ["square"]
    assert "<i>not met</i>" in first["hovertext"][1]
    assert first["meta"] == {"group": "g", "place": "p", "role": ""}


def test_rays_paths_and_truth_are_drawn():
    result = drawn(plane("", 0))
    wanted, paths, (truth,) = roles_of(result, "wanted"), roles_of(result, "path"), roles_of(result, "truth")
    assert [trace["hovertext"][1] for trace in wanted] == [f"<b>ray {r}</b>" for r in ("1 : 3", "1 : 1", "3 : 1")]
    assert wanted[0]["x"] == [0.0, 0.3, None]
    assert wanted[0]["y"] == [0.0, 0.9, None]
    assert {trace["line"]["dash"] for trace in wanted} == {"dash"}
    assert wanted[0]["meta"]["place"] == "ray 1 : 3"
    assert len(paths) == 15
    assert all(60 < len(trace["x"]) <= 121 and trace["x"][-1] is None for trace in paths)
    assert paths[0]["x"][0] == 0.95
    assert len(truth["x"]) == 200


def test_a_segment_wears_the_colour_of_its_group():
    panel = FrontPanel("", ("a", "b"), [FrontPoint((1, 1), "g")], [Segment((0, 0), (1, 1), "", "g")])
    (wanted,) = roles_of(drawn(panel), "wanted")
    assert wanted["line"]["color"] == SERIES[0].light
    assert wanted["meta"]["group"] == "g"


def test_three_losses_make_a_space():
    result = drawn(space())
    assert {trace["type"] for trace in result.data} == {"scatter3d"}
    assert result.layout["scene"]["zaxis"]["title"]["text"] == "latency"
    trace = points_of(result)[0]
    assert [trace[a][0] for a in "xyz"] == pytest.approx(list(space().points[0].losses), rel=1e-6)


def test_six_losses_make_lines_over_their_names():
    result = drawn(parallel())
    lines = points_of(result)
    assert len(lines) == 10
    assert lines[0]["y"] == pytest.approx(list(parallel().points[0].losses), rel=1e-6)
    assert len(set(lines[0]["hovertext"])) == 1
    assert result.layout["xaxis"]["ticktext"] == list(EMOTIONS)
    assert lines[3]["line"]["dash"] == "dash"
    assert result.is_wide


def test_losses_of_all_sizes_want_a_logarithmic_scale():
    panel = FrontPanel("", "abcd", [FrontPoint((1e-4, 1, 1, 10), "g")])
    assert drawn(panel).layout["yaxis"]["type"] == "log"
    assert drawn(parallel()).layout["yaxis"]["type"] == "linear"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
@pytest.mark.parametrize("m", [2, 3, 6])
def test_what_is_not_finite_is_a_gap(bad, m):
    rows = [[bad] * m, [1.0] * m]
    points = [FrontPoint(row, "g", path=rows, spread=rows[0]) for row in rows]
    result = drawn(FrontPanel("", EMOTIONS[:m], points, [Segment(rows[0], rows[1])], rows))
    assert points_of(result)[0]["y"][0] is None
    drawn(Lines("", "", "", [Curve([1, bad, 3], [1, 2, bad], "l", [bad, 1, 1])], log_x=True, log_y=True))
    drawn(Bars("", "", "ab", "s", [[bad], [1]], [[1], [bad]]))
    drawn(Profile("", "ab", "m", [[[bad, 1], [0.5, 0.5]]]))


def test_bands_break_at_gaps_and_stay_positive_on_a_logarithmic_scale():
    line = Curve([1, 2, 3, 4], [1.0, math.nan, 2.0, 4.0], "l", [0.5, 0.5, 3.0, 1.0])
    first, second, curve = drawn(Lines("", "x", "y", [line], log_y=True)).data
    assert (first["x"], first["y"]) == ([1, 1], [0.5, 1.5])
    assert (second["x"], second["y"]) == ([3, 4, 4, 3], [0.2, 3.0, 5.0, 5.0])
    assert curve["y"] == [1.0, None, 2.0, 4.0]
    assert curve["hovertemplate"] == "<b>l</b><br>x: %{x:.5~g}<br>y: %{y:.4g} ± %{customdata:.2g}<extra></extra>"
    assert "fill" not in curve


def test_lines_are_dashed_and_logarithmic_on_demand():
    result = drawn(curves(True))
    assert result.layout["xaxis"]["type"] == result.layout["yaxis"]["type"] == "log"
    dashes = [trace["line"]["dash"] for trace in result.data if "name" in trace]
    assert dashes == ["solid", "solid", "solid", "dash"]
    assert all(len(trace["x"]) <= 1300 for trace in result.data)


def test_bars_have_heights_errors_and_names():
    result = drawn(bars())
    assert [trace["name"] for trace in result.data] == list(METHODS)
    assert result.data[2]["y"][1] is None
    assert result.data[0]["y"] == pytest.approx([row[0] for row in bars().values], rel=1e-6)
    assert result.data[0]["error_y"]["array"] == [0.03] * 3
    assert result.data[0]["hovertext"][0].startswith("<b>FERERO</b><br>Multi-MNIST: 0.8")
    assert result.layout["xaxis"]["ticktext"][2] == "Multi-<br>Fashion+MNIST"


def test_a_profile_has_a_row_for_each_method_and_its_level():
    result = drawn(profile())
    assert [trace["name"] for trace in result.data] == list(METHODS)
    assert [len(trace["y"]) for trace in result.data] == [60] * 5
    assert len({trace["yaxis"] for trace in result.data}) == 5
    assert [shape["y0"] for shape in result.layout["shapes"]] == pytest.approx([1 / 6] * 5)
    assert result.data[1]["hovertext"][6].startswith("<b>linear scalarisation, preference 2</b><br>amazed: ")
    assert len({tuple(result.layout[f"yaxis{s}"]["range"]) for s in ("", "2", "3", "4", "5")}) == 1


def test_one_point_is_enough():
    panel = FrontPanel("alone", ("a", "b"), [FrontPoint((1.0, 2.0), "")])
    result = drawn(panel)
    assert result.title == "alone"
    assert points_of(result)[0]["hovertext"] == ["a: 1<br>b: 2"]
    assert result.layout["paper_bgcolor"] == PAPER.light


def test_levels_are_lines_with_labels_in_the_margin():
    levels = [Level(1.2, "cpc <= 1.2"), Level(1.0, "zh <= 1"), Level(0.0, "nothing")]
    line = Curve([0, 1], [0.9, 5.0], "l")
    plain = drawn(Lines("", "", "", [line], levels=levels)).layout
    assert [shape["y0"] for shape in plain["shapes"]] == [0.0, 1.0, 1.2]
    assert [note["text"] for note in plain["annotations"]] == ["nothing", "zh &lt;= 1", "cpc &lt;= 1.2"]
    low, high = plain["annotations"][1:]
    assert (high["y"], low["y"]) == (1.2, 1.0)
    assert high["yshift"] > 0 > low["yshift"]
    log = drawn(Lines("", "", "", [line], levels=levels, log_y=True)).layout
    assert [shape["y0"] for shape in log["shapes"]] == [1.0, 1.2]
    assert [note["y"] for note in log["annotations"]] == pytest.approx([0.0, math.log10(1.2)])
    assert "shapes" not in drawn(Lines("", "", "", [line])).layout
