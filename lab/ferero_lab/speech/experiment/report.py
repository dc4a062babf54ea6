"""The report of the speech experiment: which sections, what was to be reached, and the lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ferero_lab.experiments.experiment import Found, Section, Story
from ferero_lab.speech.experiment.measures import (
    against,
    constraint_rows,
    levels_by_seed,
    method_runs,
    search_rows,
    summary,
    sweep_rows,
)
from ferero_lab.speech.experiment.plan import TITLES, TOLERANCE, SpeechPlan
from ferero_lab.speech.experiment.sections import (
    constraint_section,
    data_section,
    error_section,
    search_section,
    steering_section,
    sweep_section,
    timing_section,
    trajectory_section,
)
from ferero_lab.speech.experiment.sentences import sentence_sections

__all__ = ["tell_story"]

FOLLOWS = 0.05
"""The bar for the gap in the sweep, nats for each symbol on the dev set."""
RATIO = 1.1
"""The bar for a FERERO step over a weighted-sum step."""
UNSEEN = 25.0
"""The bar for character errors of the quick run on unseen speakers, in percent."""
_HOPELESS = 80.0


def tell_story(plan: SpeechPlan, found: Mapping[str, Found]) -> Story:
    """The report of the parts that are there.

    Args:
        plan: what was to be run.
        found: what the parts gave, by key.
    """
    runs = method_runs(found)
    measures = _measures(plan, found, runs)
    start = runs["start"][0] if "start" in runs else None
    sections = [*_method_sections(plan, runs, measures), *_other_sections(plan, found, start, measures)]
    lead = " ".join(filter(None, (_what(plan, start, runs), _errors(plan, measures), *_bars_in_words(measures))))
    return Story("Two languages under two constraints", lead, sections, measures)


def _measures(plan: SpeechPlan, found: Mapping[str, Found], runs: Mapping[str, Sequence[Found]]) -> dict[str, Any]:
    measures: dict[str, Any] = {"plan": asdict(plan), "methods": {name: summary(each) for name, each in runs.items()}}
    if "start" in runs:
        kept = ("corpus", "parameters", "sizes", "hours", "symbols", "skipped")
        measures["data"] = {key: runs["start"][0][key] for key in kept}
    levels = levels_by_seed(runs)
    if levels:
        held = {name: each for name, each in runs.items() if name == "ls" or name.startswith("ferero")}
        measures["constraints"] = {name: constraint_rows(each, levels) for name, each in held.items()}
    if "ferero" in runs and "ls" in runs:
        measures["against_ls"] = against(runs["ferero"], runs["ls"])
    searches = {name: search_rows(name, found) for name in runs if name != "start"}
    measures |= {"searches": searches} if searches else {}
    rows = sweep_rows(found)
    measures |= {"sweep": rows} if rows else {}
    for key in ("timing", "sentences"):
        if key in found:
            measures[key] = found[key] if key == "timing" else {"rates": found[key]["rates"]}
    return measures | {"bars": _bars(plan, measures)}


def _bars(plan: SpeechPlan, measures: Mapping[str, Any]) -> dict[str, Any]:
    """What was to be reached, and whether it was."""
    bars: dict[str, Any] = {}
    if "ferero" in measures.get("constraints", {}):
        worst = max(max(row["dev"]["violations"].values()) for row in measures["constraints"]["ferero"])
        bars["violation_dev"] = {"value": worst, "bar": TOLERANCE, "is_met": worst <= TOLERANCE}
    if "against_ls" in measures:
        bars["average_error"] = _against_bar(measures["against_ls"]["test"])
    if "sweep" in measures:
        worst = max(row["dev"]["violations"]["gap"] for row in measures["sweep"])
        bars["gap_follows"] = {"value": worst, "bar": FOLLOWS, "is_met": worst <= FOLLOWS}
    if "timing" in measures:
        ratio = measures["timing"]["ratio"]
        bars["step_ratio"] = {"value": ratio, "bar": RATIO, "is_met": ratio <= RATIO}
    if plan.mode == "quick" and "ferero" in measures["methods"]:
        errors = measures["methods"]["ferero"]["test"]["errors"]
        worst = max(errors["zh"]["mean"], errors["en_letters"]["mean"])
        bars["characters_unseen"] = {"value": worst, "bar": UNSEEN, "is_met": worst < UNSEEN}
    return bars


def _against_bar(versus: Mapping[str, Any]) -> dict[str, Any]:
    """Lower, or within one standard error and with the smaller gap between the languages."""
    difference, error = versus["average"]["mean"], versus["average"]["standard_error_seeds"]
    closer = versus["gap"]["mean"] < versus["their_gap"]["mean"]
    is_met = difference < 0 or (error is not None and difference <= error and closer)
    return {"value": difference, "standard_error": error, "has_smaller_gap": closer, "is_met": is_met}


def _method_sections(
    plan: SpeechPlan, runs: Mapping[str, Sequence[Found]], measures: Mapping[str, Any]
) -> list[Section]:
    sections = []
    if runs:
        hours = sum(measures["data"]["hours"].values()) if "data" in measures else None
        sections.append(error_section(plan, hours, measures["methods"], measures.get("against_ls")))
    if "constraints" in measures:
        sections.append(constraint_section(plan, measures["constraints"]))
    shown = {name: runs[name][0] for name in ("ls", "ferero") if name in runs}
    if shown:
        sections.append(trajectory_section(shown, levels_by_seed(runs).get(0)))
    if "ferero" in shown:
        sections.append(steering_section(shown["ferero"]))
    return sections


def _other_sections(
    plan: SpeechPlan, found: Mapping[str, Found], start: Found | None, measures: Mapping[str, Any]
) -> list[Section]:
    sections, bars = [], measures["bars"]
    if "sweep" in measures:
        sections.append(sweep_section(measures["sweep"], bars["gap_follows"]["value"], FOLLOWS))
    if "searches" in measures:
        sections.append(search_section(plan, measures["searches"]))
    if "timing" in found:
        sections.append(timing_section(found["timing"], RATIO))
    if "sentences" in found:
        sections += sentence_sections(plan, found["sentences"])
    if start is not None:
        sections.append(data_section(start))
    return sections


def _what(plan: SpeechPlan, start: Found | None, runs: Mapping[str, Sequence[Found]]) -> str:
    if start is None:
        return "" if runs else "Nothing was trained yet."
    hours = start["hours"]
    sounds = "sounds that nobody said" if plan.corpus == "synthetic" else "speech"
    words = (
        f"A conformer with {start['parameters']['all'] / 1e6:.1f} million parameters learns English and Mandarin from "
        f"{sum(hours.values()):.2f} hours of {sounds} (English {hours['en']:.2f}, Mandarin {hours['zh']:.2f}) with "
        "three losses: CTC for each language and CPC."
    )
    tuned = [name for name in runs if name != "start"]
    if not tuned:
        return words
    seeds = max(len(runs[name]) for name in tuned)
    named = ", ".join(TITLES[name] for name in tuned)
    return f"{words} Tuned from its pre-trained weights by {named}; {seeds} seed{'s' * (seeds != 1)}."


def _errors(plan: SpeechPlan, measures: Mapping[str, Any]) -> str:
    methods = measures["methods"]
    if not methods:
        return ""
    words = [
        f"{TITLES[name]} {errors['average']['mean']:.1f} % (English WER {errors['en']['mean']:.1f}, "
        f"{plan.mandarin_errors} {errors['zh']['mean']:.1f})"
        for name in ("start", "ls", "ferero")
        if name in methods
        for errors in (methods[name]["test"]["errors"],)
    ]
    said = f"Average error on the test set: {'; '.join(words)}."
    lowest = min(one["test"]["errors"]["average"]["mean"] for one in methods.values())
    return f"{said} So high that the rows say little about the methods." if lowest > _HOPELESS else said


def _bars_in_words(measures: Mapping[str, Any]) -> list[str]:
    """What was to be reached, one sentence each."""
    bars, words = measures["bars"], []
    if "average_error" in bars:
        words.append(_against_in_words(bars["average_error"]))
    if "violation_dev" in bars:
        words.append(_violations_in_words(bars["violation_dev"], measures["constraints"]["ferero"]))
    if "gap_follows" in bars:
        one = bars["gap_follows"]
        words.append(f"Asked for other gaps, the dev losses follow within {one['value']:.3f} ({_met(one)}).")
    if "step_ratio" in bars:
        one = bars["step_ratio"]
        words.append(f"A FERERO step takes {one['value']:.2f} times as long as one on a weighted sum ({_met(one)}).")
    if "characters_unseen" in bars:
        one = bars["characters_unseen"]
        words.append(f"Character errors on the test set are at most {one['value']:.1f} % in a language ({_met(one)}).")
    return words


def _against_in_words(one: Mapping[str, Any]) -> str:
    error = "" if one["standard_error"] is None else f" ± {one['standard_error']:.2f} (standard error over seeds)"
    gap = "smaller" if one["has_smaller_gap"] else "not smaller"
    verdict = "met" if one["is_met"] else "missed"
    return (
        f"FERERO's average error minus that of linear scalarization is {one['value']:+.2f}{error} points, and its gap "
        f"between the languages is {gap} (bar: lower, or within one standard error with the smaller gap; {verdict})."
    )


def _violations_in_words(one: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    worst = max(
        (
            (row["test"]["violations"][key], row["test"]["standard_errors"][key])
            for row in rows
            for key in ("cpc", "gap")
        ),
        key=lambda pair: pair[0],
    )
    sure = "" if worst[1] is None else f" ± {worst[1]:.3f} (over utterances)"
    held, looks = (sum(row["late"][key] for row in rows) for key in ("held", "looks"))
    return (
        f"Its constraints fail by at most {one['value']:.3f} on the dev set, which drives them ({_met(one)}), and by "
        f"at most {worst[0]:.3f}{sure} on the test set. That is of the models that are kept; of all looks at the dev "
        f"set in the last third of the steps, {held} of {looks} had both constraints within {TOLERANCE:g}."
    )


def _met(one: Mapping[str, Any]) -> str:
    return f"bar {one['bar']:g}, {'met' if one['is_met'] else 'missed'}"
