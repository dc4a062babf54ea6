"""The report of the synthetic experiments: a section for each figure, start and column of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import torch

from ferero_lab.experiments.experiment import Found, Section, Story
from ferero_lab.experiments.synthetic.plan import METHODS, STARTS, SyntheticCase
from ferero_lab.experiments.synthetic.solve import DEGREES, DISTANCE, PAPER_TIMES
from ferero_lab.problems import Exponential
from ferero_lab.report.panels import Bars, Curve, FrontPanel, FrontPoint, Lines, Panel, Segment, Table

__all__ = ["COLUMNS", "tell_story"]

COLUMNS = {"paper": "the paper's settings", "ours": "our settings"}
TITLES = {
    "figure2": "Figure 2",
    "figure3": "Figure 3",
    "single-loop": "The single loop",
}
TEXTS = {
    ("figure2", "printed", "paper"): (
        "The start that the paper prints lies on the plateau around (1, 1), where gradients are about 1e-8: with its "
        "fixed steps no method moves."
    ),
    ("figure2", "printed", "ours"): (
        "From the same start. step='auto' measures steps by distance and not by gradients, so it leaves the plateau; "
        "PMTL and EPO have no merit that a step could be chosen by, and keep a fixed one."
    ),
    ("figure2", "released", "paper"): (
        "The start that the released code really has. Five rays at equal angles; the last panel has the second kind of "
        "preference, lines through the losses of the start (the paper does not print its lines; these are our reading)."
    ),
    ("figure2", "released", "ours"): (
        "The same starts. LS, MGDA and FERERO with step='auto'; for PMTL and EPO the best of a few fixed steps, chosen "
        "on other starts, and EPO with a finer tolerance, without which it ends some tenths of a degree off."
    ),
    ("single-loop", "released", "ours"): (
        "The same with gamma 1, a bound on the multipliers, and c_h and the step the best of a few on other starts. "
        "Beside it our other single loop, which learns the gramian from slopes and has no gamma."
    ),
    ("figure3", "easy", "ours"): (
        "FERERO with step='auto', which needs no A; PMTL and EPO as in Figure 2, our settings."
    ),
    ("figure3", "hard", "ours"): (
        "FERERO with step='auto', which needs no A; PMTL and EPO as in Figure 2, our settings."
    ),
    ("figure3", "easy", "paper"): "Four rays from starts near the front. FERERO takes the paper's A for ascent.",
    ("figure3", "hard", "paper"): (
        "Starts beyond an end of the front, so that one loss must rise. FERERO with the paper's A and c_h = 0.01."
    ),
    ("single-loop", "released", "paper"): (
        "Algorithm 2: one step on the multipliers for each step. The paper does not print gamma; it "
        "gets the better of 0.1 (that of the inner loop which it replaces) and 1, chosen on other starts."
    ),
}
HEADER = ("method", "setting", "reached", "front", "ray error", "off front", "evals")
ORDER = (("figure2", "printed"), ("figure2", "released"), ("figure3", "easy"), ("figure3", "hard"), ("single-loop", ""))


def tell_story(cases: Sequence[SyntheticCase], found: Mapping[str, Found], seeds: int) -> Story:
    """The report of the parts that are there.

    Args:
        cases: the panels, those of one section together.
        found: what the parts gave, by key.
        seeds: how many there were.
    """
    sections: list[Section] = []
    measures: dict[str, Any] = {}
    for figure, start in ORDER:
        for column in COLUMNS:
            there = [
                case
                for case in cases
                if (case.figure, case.column) == (figure, column) and start in ("", case.start) and case.key in found
            ]
            if there:
                sections.append(_section(there, found, seeds))
                rows = {case.key: measure(found[case.key]) for case in there}
                measures.setdefault(column, {}).update(rows)
    for column in COLUMNS:
        if f"scale-{column}" in found:
            section, rows = scale_section(column, found[f"scale-{column}"])
            sections.append(section)
            measures.setdefault(column, {})["scale"] = rows
    if "time" in found:
        section, measures["time"] = time_section(found["time"])
        sections.append(section)
    return Story("FERERO on two synthetic losses", _lead(measures, seeds), sections, measures)


def measure(found: Found) -> dict[str, Any]:
    """The figures of one panel over all its runs."""
    runs = found["runs"]
    errors = [run["error"] for run in runs if run["error"] is not None]
    offs = [run["violation"] for run in runs if run["violation"] is not None]
    return {
        "setting": found["setting"],
        "runs": len(runs),
        "reached": sum(run["reached"] for run in runs),
        "on_the_front": sum(run["distance"] < DISTANCE for run in runs),
        "error_median": median(errors) if errors else None,
        "error_largest": max(errors) if errors else None,
        "violation_median": median(offs) if offs else None,
        "distance_median": median(run["distance"] for run in runs),
        "distance_largest": max(run["distance"] for run in runs),
        "evaluations_median": median(run["evaluations"] for run in runs),
        "iterations_median": median(run["iterations"] for run in runs),
    }


def _section(cases: Sequence[SyntheticCase], found: Mapping[str, Found], seeds: int) -> Section:
    first = cases[0]
    starts = list(dict.fromkeys(case.start for case in cases))
    which = f", {first.start} start" if first.figure != "single-loop" else ""
    title = f"{TITLES[first.figure]}{which}: {COLUMNS[first.column]}"
    words = TEXTS.get((first.figure, first.start, first.column), "")
    places = "; ".join(f"{start}: {STARTS[start]}" if which == "" else STARTS[start] for start in starts)
    text = f"{words} Starts: {places}.".strip()
    counts = " or ".join(str(count) for count in sorted({case.count for case in cases}))
    rows = [_row(case, found[case.key]) for case in cases]
    note = (
        f"{counts} directions x {seeds} seed{'s' * (seeds > 1)}. Reached: within {DEGREES} degrees of the ray and "
        f"{DISTANCE} of the front; front: the latter alone. Medians, in brackets the largest error. "
        "Evals: of the losses. Trajectories are the first seed's."
    )
    panels = [case_panel(case, found[case.key]) for case in cases]
    return Section(title, text, panels, [Table(HEADER, rows, title, note)])


def _row(case: SyntheticCase, found: Found) -> list[str]:
    m = measure(found)
    is_guided = case.preferences != "nothing"
    return [
        case.title,
        m["setting"],
        f"{m['reached']}/{m['runs']}" if is_guided else "-",
        f"{m['on_the_front']}/{m['runs']}",
        _degrees(m["error_median"], m["error_largest"]),
        _small(m["distance_median"]),
        f"{m['evaluations_median']:g}",
    ]


def _degrees(middle: float | None, largest: float | None) -> str:
    if middle is None or largest is None:
        return "-"
    words = ["<0.001°" if one < 1e-3 else f"{one:.2g}°" if one < 10 else f"{one:.0f}°" for one in (middle, largest)]
    return words[0] if largest < 1e-3 else f"{words[0]} ({words[1]})"


def _small(value: float) -> str:
    return "<1e-6" if value < 1e-6 else f"{value:.2g}"


def _lead(measures: Mapping[str, Any], seeds: int) -> str:
    words = [
        "f1 = 1 - exp(-|theta - c|^2) and f2 = 1 - exp(-|theta + c|^2) in twenty dimensions: a concave front with "
        f"plateaus around it. {seeds} seed{'s' * (seeds > 1)}. Tables are either by the paper's settings or by ours."
    ]
    for column, name in COLUMNS.items():
        rows = measures.get(column, {})
        found = [rows[key] for key in rows if key.startswith("figure") and key.endswith(f"{column}-ferero")]
        if found:
            reached, runs = (sum(m[key] for m in found) for key in ("reached", "runs"))
            words.append(f"With {name} FERERO reaches {reached} of {runs} rays of Figures 2 and 3.")
    return " ".join(words)


NAMES = ("f1", "f2")
LONG = 1.15  # of a ray in a picture


def true_front() -> list[list[float]]:
    """Points of the front (K, 2)."""
    points: list[list[float]] = Exponential().front(80).tolist()
    return points


def case_panel(case: SyntheticCase, found: Found) -> FrontPanel:
    """The first seed's runs; one that is not there is hollow."""
    runs = [run for run in found["runs"] if run["path"]]
    segments = [] if case.preferences == "nothing" else [_segment(case, run) for run in runs]
    points = [_point(case, run) for run in runs]
    return FrontPanel(case.title, NAMES, points, segments, true_front())


def _label(run: dict[str, Any]) -> str:
    return f"{run['angle']:.0f}°"


def _segment(case: SyntheticCase, run: dict[str, Any]) -> Segment:
    """A ray from the origin, or a line from the start's losses as far as an axis."""
    angle, begin = (
        torch.deg2rad(torch.tensor(run["angle"], dtype=torch.float64)),
        torch.tensor(run["through"], dtype=torch.float64),
    )
    ray = torch.stack([angle.cos(), angle.sin()])
    if case.preferences == "rays":
        return Segment([0.0, 0.0], (LONG * ray).tolist(), _label(run), _label(run))
    reach = float((begin / ray).min())
    return Segment(begin.tolist(), (begin - reach * ray).tolist(), _label(run), _label(run))


def _point(case: SyntheticCase, run: dict[str, Any]) -> FrontPoint:
    is_there = run["reached"] if case.preferences != "nothing" else run["distance"] < 0.01
    details = {
        "status": run["status"],
        "off the front": f"{run['distance']:.1e}",
        "weights": ", ".join(f"{w:.3g}" for w in run["weights"] if w is not None),
        "evaluations": str(run["evaluations"]),
    }
    if run["error"] is not None:
        details["ray error"] = f"{run['error']:.2g}°"
        details["violation"] = f"{run['violation']:.1e}"
    group = _label(run)
    label = f"start {group}" if case.preferences == "nothing" else f"{case.preferences[:-1]} at {group}"
    return FrontPoint(run["losses"], group, label, details, run["path"], (), is_there)


SCALE_TITLES = {
    "paper": "Scale invariance: the paper's settings, fixed step 0.05",
    "ours": "Scale invariance: our settings, step='auto'",
}
SCALE_TEXTS = {
    "paper": (
        "The second loss times 1, 2 and 1e6, its preference (the line through F(theta_0) and F(0)) in the same units, "
        "and all losses shown in those of the first run. The direction d / |d| at the start is the same in all three, "
        "as proved. Its length is not, so a fixed step is not invariant: times 2 it goes the same way faster, times "
        "1e6 one step leads to the plateau, where gradients vanish and every certificate holds."
    ),
    "ours": "The same three runs with step='auto', which looks at no unit: they coincide.",
}
SCALE_HEADER = ("f2 times", "|d|", "d/|d| turned by", "steps", "status", "path off by", "end off by")
SCALE_NOTE = (
    "At the start: |d|, and d/|d| against the first run's. Losses against the first run's, in its units, step by step."
)


def scale_section(column: str, found: Found) -> tuple[Section, dict[str, Any]]:
    """The section of one column of settings, and its measures by scale."""
    runs = found["runs"]
    table = Table(SCALE_HEADER, [_scale_row(run) for run in runs], SCALE_TITLES[column], SCALE_NOTE)
    kept = ("length", "turn", "iterations", "status", "apart", "apart_at_the_end")
    measures = {f"{run['scale']:g}": {key: run[key] for key in kept} for run in runs}
    return Section(SCALE_TITLES[column], SCALE_TEXTS[column], _scale_panels(runs), [table]), measures


def _scale_panels(runs: list[dict[str, Any]]) -> list[Panel]:
    points = [
        FrontPoint(
            run["path"][-1],
            _scale_name(run),
            _scale_name(run),
            {"status": run["status"]},
            run["path"],
            place=_scale_name(run),
        )
        for run in runs
    ]
    lines = [
        Curve(list(range(len(run["path"]))), [losses[0] for losses in run["path"]], _scale_name(run), dashed=index > 0)
        for index, run in enumerate(runs)
    ]
    ways = FrontPanel("losses in the first's unit", NAMES, points, (), true_front())
    return [ways, Lines("f1 on the way", "step", "f1", lines)]


def _scale_name(run: dict[str, Any]) -> str:
    return f"f2 x {run['scale']:g}"


def _scale_row(run: dict[str, Any]) -> list[str]:
    return [
        f"{run['scale']:g}",
        f"{run['length']:.4g}",
        f"{run['turn']:.0e}",
        str(run["iterations"]),
        run["status"],
        f"{run['apart']:.1e}",
        f"{run['apart_at_the_end']:.1e}",
    ]


TIME_TITLE = "Time per iteration"
TIME_TEXT = (
    "One iteration evaluates, differentiates, asks the method and steps, and the median counts. Methods take "
    "turns, and ratios are those of neighbours. The paper's times are from another machine, so the ratio to LS is what "
    "can be compared. The last row is a whole search with step='auto' from an easy start."
)
TIME_HEADER = (
    "method",
    "seconds",
    "over LS",
    "paper: seconds",
    "paper: over LS",
    "paper's iterations",
    "seconds for these",
)
TIME_NOTE = (
    "Per iteration; the paper's for the easy / the hard starts of Figure 3. Ours to the right: what the paper's "
    "iterations take here."
)


def time_section(found: Found) -> tuple[Section, dict[str, Any]]:
    """The section, and its measures, which are those of the part."""
    seconds = found["seconds"]
    rows = [_time_row(name, seconds) for name in seconds["per_iteration"]]
    evaluations = f"{found['evaluations']} evaluations"
    rows.append(["FERERO, step='auto'", "-", "-", "-", "-", evaluations, f"{seconds['auto']:.4f}"])
    names = list(PAPER_TIMES)
    first = PAPER_TIMES["ls"][0][1]
    values = [(seconds["over_ls"][name], PAPER_TIMES[name][0][1] / first) for name in names]
    bars = Bars(TIME_TITLE, "ratio to LS", [METHODS[name] for name in names], ["measured", "paper"], values)
    return Section(TIME_TITLE, TIME_TEXT, [bars], [Table(TIME_HEADER, rows, TIME_TITLE, TIME_NOTE)]), dict(found)


def _time_row(name: str, seconds: dict[str, dict[str, float]]) -> list[str]:
    time = seconds["per_iteration"][name]
    here = [METHODS[name], f"{time:.1e}", f"{seconds['over_ls'][name]:.2f}"]
    if name not in PAPER_TIMES:
        return [*here, "-", "-", "-", "-"]
    paper, first = PAPER_TIMES[name], PAPER_TIMES["ls"]
    return [
        *here,
        " / ".join(f"{one:.1e}" for _, one in paper),
        " / ".join(f"{one[1] / ls[1]:.2f}" for one, ls in zip(paper, first, strict=True)),
        " / ".join(str(count) for count, _ in paper),
        " / ".join(f"{count * time:.3f}" for count, _ in paper),
    ]
