"""What the report of the synthetic experiments says: a section for each figure, start and column of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ferero_lab.experiments.experiment import Found, Section, Story
from ferero_lab.experiments.synthetic.cases import Case
from ferero_lab.experiments.synthetic.panels import case_panel
from ferero_lab.experiments.synthetic.scale_story import scale_section
from ferero_lab.experiments.synthetic.solving import DEGREES, DISTANCE
from ferero_lab.experiments.synthetic.time_story import time_section
from ferero_lab.experiments.synthetic.wishes import STARTS
from ferero_lab.report.panels import Table

__all__ = ["COLUMNS", "measure", "tell_story"]

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


def tell_story(cases: Sequence[Case], found: Mapping[str, Found], seeds: int) -> Story:
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


def _section(cases: Sequence[Case], found: Mapping[str, Found], seeds: int) -> Section:
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


def _row(case: Case, found: Found) -> list[str]:
    m = measure(found)
    is_guided = case.wanted != "nothing"
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
