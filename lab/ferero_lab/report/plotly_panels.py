"""Every kind of panel as an interactive figure: plain data in, plain data for plotly out."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, log10

from ferero_lab.report.panels import (
    Bars,
    Curve,
    FrontPanel,
    Heat,
    Level,
    Lines,
    Panel,
    Profile,
    Vector,
    band_of,
    clean,
    labelled_levels,
)
from ferero_lab.report.plotly_frame import (
    PlotlyFigure,
    Spec,
    axis,
    bar_text,
    layout,
    line_template,
    meta,
    number,
    numbers,
    plain,
    plain_lines,
    thin_curve,
)
from ferero_lab.report.plotly_front import front_graph
from ferero_lab.report.plotly_heat import heat_graph
from ferero_lab.report.style import INK, SOFT, Palette

__all__ = ["graph"]


def graph(panel: Panel, palette: Palette) -> PlotlyFigure:
    """The panel as a figure.

    Args:
        panel: what to show; may be empty.
        palette: the colours of the whole report.
    """
    panel = clean(panel)
    if isinstance(panel, FrontPanel):
        return front_graph(panel, palette)
    if isinstance(panel, Lines):
        return _lines(panel, palette)
    if isinstance(panel, Bars):
        return _bars(panel, palette)
    if isinstance(panel, Heat):
        return heat_graph(panel)
    return _profile(panel, palette)


def _lines(panel: Lines, palette: Palette) -> PlotlyFigure:
    data: list[Spec] = []
    for line in panel.lines:
        kept = thin_curve(line.x, line.y, log=panel.log_x).tolist()
        data += [*_bands(line, kept, palette, log=panel.log_y), _curve(line, kept, panel, palette)]
    axes = {
        "xaxis": axis(panel.x_label, log=panel.log_x, **_ticks(panel.log_x, [line.x for line in panel.lines])),
        "yaxis": axis(panel.y_label, log=panel.log_y, **_ticks(panel.log_y, _heights(panel))),
    }
    return PlotlyFigure(panel.title, data, layout(340, **axes, **_levels(panel)))


def _levels(panel: Lines) -> Spec:
    """Lines across, and their labels in the margin, where no curve runs through them."""
    levels = labelled_levels(panel)
    texts = {level.label: plain_lines(level.label, 14) for level, _ in levels}
    letters = max((len(line) for text in texts.values() for line in text.split("<br>")), default=0)
    if not levels:
        return {}
    return {
        "margin": {"l": 52, "r": 14 + 7 * letters, "t": 10, "b": 44},
        "shapes": [_level(level.y, "y", SOFT.light) for level, _ in levels],
        "annotations": [_level_text(level, texts[level.label], up, log=panel.log_y) for level, up in levels],
    }


def _level_text(level: Level, text: str, up: float, *, log: bool) -> Spec:
    """At the right end; plotly wants the logarithm of a text's height, though not of a line's."""
    return {
        "text": text,
        "align": "left",
        "xref": "paper",
        "x": 1,
        "xanchor": "left",
        "xshift": 3,
        "yref": "y",
        "y": log10(level.y) if log else level.y,
        "yanchor": "middle",
        "yshift": round(260 * up, 1),
        "showarrow": False,
        "font": {"size": 11, "color": INK.light},
    }


def _heights(panel: Lines) -> list[Vector]:
    return [*(line.y for line in panel.lines), [level.y for level in panel.levels]]


def _ticks(log: bool, values: Sequence[Vector]) -> Spec:
    """Whole powers of ten alone where there are some: with what lies between them labels would collide."""
    positive = [value for row in values for value in row if 0 < value < inf]
    if not log or not positive or max(positive) < 30 * min(positive):
        return {}
    return {"dtick": max(1, round(log10(max(positive) / min(positive)) / 6))}


def _curve(line: Curve, kept: Sequence[int], panel: Lines, palette: Palette) -> Spec:
    is_short = len(line.x) <= 12
    tone = palette.tone(line.label).light
    trace: Spec = {
        "type": "scatter",
        "x": numbers(line.x[i] for i in kept),
        "y": numbers(line.y[i] for i in kept),
        "mode": "lines+markers" if is_short else "lines",
        "line": {"color": tone, "width": 2, "dash": "dash" if line.dashed else "solid"},
        "marker": {"color": tone, "size": 6},
        "name": plain(line.label),
        "hovertemplate": line_template(line, panel.x_label, panel.y_label),
        "meta": meta(line.label),
    }
    if len(line.spread):
        trace["customdata"] = numbers(line.spread[i] for i in kept)
    return trace


def _bands(line: Curve, kept: Sequence[int], palette: Palette, *, log: bool) -> list[Spec]:
    """One closed area for each stretch without gaps."""
    if not len(line.spread):
        return []
    low, high = band_of(line, log=log)
    stretches: list[list[int]] = [[]]
    for i in kept:
        if all(isfinite(value) for value in (line.x[i], low[i], high[i])):
            stretches[-1].append(i)
        elif stretches[-1]:
            stretches.append([])
    return [
        {
            "type": "scatter",
            "x": numbers([line.x[i] for i in stretch] + [line.x[i] for i in reversed(stretch)]),
            "y": numbers([low[i] for i in stretch] + [high[i] for i in reversed(stretch)]),
            "mode": "lines",
            "line": {"width": 0},
            "fill": "toself",
            "fillcolor": palette.tone(line.label).shade().light,
            "hoverinfo": "skip",
            "meta": meta(line.label),
        }
        for stretch in stretches
        if stretch
    ]


def _bars(panel: Bars, palette: Palette) -> PlotlyFigure:
    data = []
    for s, name in enumerate(panel.series):
        values = [row[s] for row in panel.values]
        errors = [row[s] for row in panel.errors]
        trace: Spec = {
            "type": "bar",
            "x": list(range(len(panel.groups))),
            "y": numbers(values),
            "marker": {"color": palette.tone(name).light},
            "name": plain(name),
            "hoverinfo": "text",
            "hovertext": [
                bar_text(name, group, value, errors[g] if errors else None)
                for g, (group, value) in enumerate(zip(panel.groups, values, strict=True))
            ],
            "textposition": "none",
            "meta": meta(name),
        }
        if errors:
            trace["error_y"] = {
                "type": "data",
                "array": numbers(errors),
                "color": INK.light,
                "thickness": 1.2,
                "width": 3,
            }
        data.append(trace)
    places: Spec = {"tickmode": "array", "tickvals": list(range(len(panel.groups))), "showgrid": False}
    across = axis(ticktext=[plain_lines(group, 13) for group in panel.groups], **places)
    up = axis(panel.y_label, zeroline=True, zerolinecolor=INK.light)
    is_wide = len(panel.groups) * len(panel.series) > 24
    return PlotlyFigure(
        panel.title, data, layout(340, xaxis=across, yaxis=up, barmode="group", bargap=0.25), is_wide=is_wide
    )


def _profile(panel: Profile, palette: Palette) -> PlotlyFigure:
    """One row for each method, one cluster of bars for each preference, one bar for each loss."""
    rows, data, level = len(panel.methods), [], 1 / max(len(panel.names), 1)
    count = max((len(profiles) for profiles in panel.profiles), default=0)
    values = [value for profiles in panel.profiles for profile in profiles for value in profile if isfinite(value)]
    top = 1.12 * max([*values, level])
    frame = layout(64 + 92 * max(rows, 1), bargap=0.25, annotations=[], shapes=[])
    for r, method in enumerate(panel.methods):
        suffix = str(r + 1) if r else ""
        step = 1 / rows
        domain = [1 - (r + 1) * step + 0.02, 1 - r * step - 0.24 * step]
        frame[f"yaxis{suffix}"] = axis(domain=domain, range=[0, top], nticks=4)
        frame["annotations"].append(_row_title(method, domain[1]))
        frame["shapes"].append(_level(level, f"y{suffix}"))
        data += _profile_bars(panel, r, f"y{suffix}", palette)
    frame["xaxis"] = axis(
        "preference",
        tickmode="array",
        tickvals=list(range(1, count + 1)),
        range=[0.4, count + 0.6],
        showgrid=False,
        anchor=f"y{rows}" if rows > 1 else "y",
    )
    return PlotlyFigure(panel.title, data, frame, is_wide=True)


def _profile_bars(panel: Profile, r: int, axis_name: str, palette: Palette) -> list[Spec]:
    m, method, profiles = len(panel.names), panel.methods[r], panel.profiles[r]
    width = 0.8 / max(m, 1)
    spots = [(p, i) for p in range(len(profiles)) for i in range(m)]
    title = f"{method}, preference "
    return [
        {
            "type": "bar",
            "x": numbers(p + 1 + (i - (m - 1) / 2) * width for p, i in spots),
            "y": [number(profiles[p][i]) for p, i in spots],
            "width": 0.86 * width,
            "yaxis": axis_name,
            "marker": {"color": palette.tone(method).light},
            "name": plain(method),
            "hoverinfo": "text",
            "hovertext": [bar_text(f"{title}{p + 1}", panel.names[i], profiles[p][i]) for p, i in spots],
            "textposition": "none",
            "meta": meta(method),
        }
    ]


def _row_title(method: str, top: float) -> Spec:
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": top, "yanchor": "bottom"}
    return {"text": plain(method), "showarrow": False, "font": {"size": 12, "color": INK.light}, **place}


def _level(level: float, axis_name: str, color: str = INK.light) -> Spec:
    line = {"color": color, "width": 1, "dash": "dash"}
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "yref": axis_name,
        "y0": level,
        "y1": level,
        "line": line,
    }
