"""Losses against each other, interactive: a plane for two, a space for three, parallel coordinates for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import isfinite
from typing import Any

from ferero_lab.report.panels import FrontPanel, FrontPoint, Segment, wants_log
from ferero_lab.report.plotly_frame import (
    PlotlyFigure,
    Spec,
    axis,
    layout,
    meta,
    number,
    numbers,
    plain,
    point_text,
    segment_text,
    thin_path,
)
from ferero_lab.report.style import INK, PALE, PAPER, SOFT, Palette

__all__ = ["front_graph"]

_AXES = ("x", "y", "z")


def front_graph(panel: FrontPanel, palette: Palette) -> PlotlyFigure:
    """The panel as a figure.

    Markers differ by place and colours by group; a point that is not met is hollow. Beyond three losses each point is
    a line over the names, dashed where it is not met, and trajectories are left out.
    """
    if len(panel.names) in {2, 3}:
        return _space(panel, palette)
    return _parallel(panel, palette)


def _space(panel: FrontPanel, palette: Palette) -> PlotlyFigure:
    m = len(panel.names)
    data = [*_truth(panel, m), *_segments(panel, palette, m)]
    batches = list(_batches(panel.points))
    data += [_paths(batch, palette, m) for batch in batches if any(len(point.path) for point in batch)]
    data += [_markers(batch, panel.names, palette) for batch in batches]
    titles = dict(zip(_AXES, panel.names, strict=False))
    if m == 2:
        axes: Spec = {
            f"{a}axis": axis(title, rangemode="tozero" if panel.from_zero else "normal") for a, title in titles.items()
        }
        return PlotlyFigure(panel.title, data, layout(380, **axes))
    return PlotlyFigure(panel.title, data, layout(430, scene=_scene(titles), margin={"l": 0, "r": 0, "t": 0, "b": 0}))


def _scene(titles: dict[str, str]) -> Spec:
    axes = {}
    for a, title in titles.items():
        axes[f"{a}axis"] = {
            "title": {"text": plain(title)},
            "color": INK.light,
            "gridcolor": PALE.light,
            "linecolor": SOFT.light,
            "showbackground": False,
            "zeroline": False,
            "nticks": 5,
        }
    camera = {"eye": {"x": 1.5, "y": 1.25, "z": 0.85}, "center": {"x": 0, "y": 0, "z": -0.12}}
    return {"aspectmode": "cube", "camera": camera, **axes}


def _batches(points: Sequence[FrontPoint]) -> Iterator[list[FrontPoint]]:
    """Points with the same group and place, in the order of their first ones."""
    keys = list(dict.fromkeys((point.group, point.place) for point in points))
    ordered = sorted(points, key=lambda point: keys.index((point.group, point.place)))
    for _, batch in groupby(ordered, key=lambda point: (point.group, point.place)):
        yield list(batch)


def _kind(m: int) -> Spec:
    return {"type": "scatter3d" if m == 3 else "scatter"}


def _columns(rows: Iterable[Sequence[float]], m: int) -> Spec:
    """Coordinates (K, m) by axis."""
    listed = list(rows)
    return {a: numbers(row[i] for row in listed) for i, a in enumerate(_AXES[:m])}


def _chained(pieces: Iterable[Any], m: int) -> Spec:
    """Several curves, (T, m) each, as one with gaps."""
    columns: dict[str, list[float | None]] = {a: [] for a in _AXES[:m]}
    for piece in pieces:
        for i, a in enumerate(_AXES[:m]):
            columns[a] += [*numbers(row[i] for row in piece), None]
    return columns


def _truth(panel: FrontPanel, m: int) -> list[Spec]:
    if not len(panel.truth):
        return []
    rows: list[Any] = list(panel.truth)
    look: Spec = {"mode": "markers", "marker": {"size": 2, "color": PALE.light}}
    if m == 2:
        if all(isfinite(value) for row in rows for value in row):
            rows.sort(key=tuple)
        look = {"mode": "lines", "line": {"color": PALE.light, "width": 4}}
    return [{**_kind(m), **look, **_columns(rows, m), "hoverinfo": "skip", "meta": meta(role="truth")}]


def _segments(panel: FrontPanel, palette: Palette, m: int) -> list[Spec]:
    traces = []
    for group in dict.fromkeys(segment.group for segment in panel.segments):
        wanted = [segment for segment in panel.segments if segment.group == group]
        traces.append(
            {
                **_kind(m),
                **_chained(([segment.begin, segment.end] for segment in wanted), m),
                "mode": "lines",
                "line": {"color": palette.segment_tone(group).light, "width": 1.5 if m == 2 else 3, "dash": "dash"},
                "opacity": 0.6,
                "hoverinfo": "text",
                "hovertext": [text for segment in wanted for text in ("", segment_text(segment), "")],
                "meta": _segment_meta(group, palette),
            }
        )
    return traces


def _segment_meta(group: str, palette: Palette) -> Spec:
    """A segment goes with its group, or, where only places bear that name, with its place."""
    return meta(group if palette.knows(group) else "", group, "wanted")


def _paths(batch: Sequence[FrontPoint], palette: Palette, m: int) -> Spec:
    group, place = batch[0].group, batch[0].place
    return {
        **_kind(m),
        **_chained((thin_path(point.path) for point in batch if len(point.path)), m),
        "mode": "lines",
        "line": {"color": palette.tone(group).light, "width": 1.3 if m == 2 else 2.5},
        "opacity": 0.55,
        "hoverinfo": "skip",
        "meta": meta(group, place, "path"),
    }


def _markers(batch: Sequence[FrontPoint], names: Sequence[str], palette: Palette) -> Spec:
    m, group, place = len(names), batch[0].group, batch[0].place
    tone, mark = palette.tone(group).light, palette.marker(place)
    filled, hollow = (mark.plane, f"{mark.plane}-open") if m == 2 else (mark.space, mark.hollow)
    marker: Spec = {
        "color": tone,
        "size": 9 if m == 2 else 5,
        "symbol": [filled if point.ok else hollow for point in batch],
        "line": {"color": PAPER.light, "width": [1.0 if point.ok else 2.0 for point in batch]},
    }
    if m == 3:
        marker["line"] = {"color": tone, "width": 1}
    return {
        **_kind(m),
        **_columns((point.losses for point in batch), m),
        **_error_bars(batch, tone, m),
        "mode": "markers",
        "marker": marker,
        "name": plain(group),
        "hoverinfo": "text",
        "hovertext": [point_text(point, names) for point in batch],
        "meta": meta(group, place),
    }


def _error_bars(batch: Sequence[FrontPoint], tone: str, m: int) -> Spec:
    if not any(len(point.spread) for point in batch):
        return {}
    look: Spec = {"type": "data", "color": tone, "thickness": 1, "width": 3}
    return {
        f"error_{a}": {**look, "array": [number(p.spread[i]) if len(p.spread) else None for p in batch]}
        for i, a in enumerate(_AXES[:m])
    }


def _parallel(panel: FrontPanel, palette: Palette) -> PlotlyFigure:
    places = list(range(len(panel.names)))
    data: list[Spec] = []
    if len(panel.truth):
        rows = [list(zip(places, row, strict=True)) for row in thin_path(panel.truth, most=200)]
        line = {"color": PALE.light, "width": 1}
        data.append(
            {
                "type": "scatter",
                **_chained(rows, 2),
                "mode": "lines",
                "line": line,
                "opacity": 0.5,
                "hoverinfo": "skip",
                "meta": meta(role="truth"),
            }
        )
    data += [_wanted(segment, places, palette) for segment in panel.segments]
    data += [_polyline(point, panel.names, palette) for point in panel.points]
    across = axis(
        tickmode="array",
        tickvals=places,
        ticktext=[plain(name) for name in panel.names],
        range=[-0.3, len(places) - 0.7],
        gridcolor=PALE.light,
        showline=False,
    )
    return PlotlyFigure(
        panel.title, data, layout(400, xaxis=across, yaxis=axis("loss", log=wants_log(panel))), is_wide=True
    )


def _wanted(segment: Segment, places: list[int], palette: Palette) -> Spec:
    """Where the segment ends: all of it would be an area."""
    text = segment_text(segment)
    return {
        "type": "scatter",
        "x": places,
        "y": numbers(segment.end),
        "mode": "lines",
        "line": {"color": palette.segment_tone(segment.group).light, "width": 1.5, "dash": "dash"},
        "opacity": 0.6,
        "hoverinfo": "text",
        "hovertext": [text] * len(places),
        "meta": _segment_meta(segment.group, palette),
    }


def _polyline(point: FrontPoint, names: Sequence[str], palette: Palette) -> Spec:
    tone, mark = palette.tone(point.group).light, palette.marker(point.place).plane
    trace: Spec = {
        "type": "scatter",
        "x": list(range(len(names))),
        "y": numbers(point.losses),
        "mode": "lines+markers",
        "line": {"color": tone, "width": 1.5, "dash": "solid" if point.ok else "dash"},
        "marker": {"color": tone, "size": 7, "symbol": mark if point.ok else f"{mark}-open"},
        "opacity": 0.85,
        "name": plain(point.group),
        "hoverinfo": "text",
        "hovertext": [point_text(point, names)] * len(names),
        "meta": meta(point.group, point.place),
    }
    if len(point.spread):
        trace["error_y"] = {"type": "data", "array": numbers(point.spread), "color": tone, "thickness": 1, "width": 3}
    return trace
