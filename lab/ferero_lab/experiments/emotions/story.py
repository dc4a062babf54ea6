"""What the report of the emotions experiment says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ferero_lab.experiments.emotions.measures import attained, measure
from ferero_lab.experiments.emotions.plan import TITLES, Plan
from ferero_lab.experiments.emotions.sections import (
    constant_section,
    held_out_section,
    profile_section,
    rays_section,
    search_section,
    shares_by_step,
    volume_section,
)
from ferero_lab.experiments.experiment import Found, Section, Story

__all__ = ["LIMIT", "tell_story"]

LIMIT = 4.0
"""Degrees: the bar for FERERO's median, and up to which a ray counts as attained."""
SHARE = 1 / 3
"""The bar for FERERO's median over that of the best neighbour."""

UNTRAINED = 6**0.5 * math.log(2)
"""The length of six losses of a network that knows nothing."""


def tell_story(plan: Plan, found: Mapping[str, Found]) -> Story:
    """The report of the parts that are there.

    Args:
        plan: what was to be run.
        found: what the parts gave, by key.
    """
    methods = {name: found[f"rays-{name}"] for name in TITLES if f"rays-{name}" in found}
    measures: dict[str, Any] = {"mode": plan.mode, "methods": {}}
    sections: list[Section] = []
    words = [_what(plan, found)]
    if methods:
        measured = {name: {"step": one["step"], **measure(one)} for name, one in methods.items()}
        rays = attained(methods, LIMIT)
        measures |= {"methods": measured, "rays": rays, "bars": _bars(measured, rays)}
        words += [_outcome(measures["bars"], measured), _warning(measured)]
        sections += [
            profile_section(plan, methods, measured),
            volume_section(plan, methods, measured),
            rays_section(methods, measured, rays, LIMIT),
        ]
        if any(one["search"] for one in methods.values()):
            measures["search"] = {name: one["search"] for name, one in methods.items()}
            measures["share_by_step"] = {f"{step:g}": share for step, share in shares_by_step(methods).items()}
            sections.append(search_section(plan, methods))
    if "constant" in found:
        measures["constant"] = measure(found["constant"])
        sections.append(constant_section(plan, found["constant"], measures["constant"]))
    if "held-out" in found:
        section, measures["held_out"] = held_out_section(plan, found["held-out"])
        sections.append(section)
    return Story("Six emotions, ten rays", " ".join(filter(None, words)), sections, measures)


def _what(plan: Plan, found: Mapping[str, Found]) -> str:
    is_stand_in = any(one.get("data") == "stand-in" for one in found.values())
    songs = "a synthetic stand-in for 391 songs" if is_stand_in else "391 songs"
    whose = "the paper's settings" if plan.mode == "paper" else "our settings"
    return (
        f"A network with four layers learns six emotions from {songs}, one loss each, and is asked for ten rays in "
        f"the space of the six losses: {whose}, {plan.epochs} epochs of {plan.optimizer}, {_count(plan.seeds, 'seed')}."
    )


def _bars(measured: Mapping[str, Any], rays: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"rays_attained": sum(ray["is_attained"] for ray in rays)}
    if "ferero" not in measured:
        return found
    error = measured["ferero"]["train"]["error_median"]
    found["error_median"] = {"value": error, "bar": LIMIT, "is_met": error <= LIMIT}
    diverged = measured["ferero"]["diverged"]
    found["diverged"] = {"value": diverged, "bar": 0, "is_met": diverged == 0}
    others = {name: one["train"]["error_median"] for name, one in measured.items() if name != "ferero"}
    if others:
        best = min(others, key=lambda name: others[name])
        share = error / others[best]
        found["over_best_neighbour"] = {"value": share, "bar": SHARE, "neighbour": best, "is_met": share <= SHARE}
    return found


def _outcome(bars: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    if "ferero" not in measured:
        return ""
    words = f"FERERO's training losses end {bars['error_median']['value']:.1f} degrees from their rays (median)"
    if "over_best_neighbour" in bars:
        best = bars["over_best_neighbour"]["neighbour"]
        words += (
            f", the best neighbour's ({TITLES[best]}) {measured[best]['train']['error_median']:.1f}, "
            f"a ratio of {bars['over_best_neighbour']['value']:.2f}"
        )
    ours = measured["ferero"]
    words += (
        f"; {bars['diverged']['value']} of {ours['models']} models diverged. On the test songs FERERO's median is "
        f"{ours['test']['error_median']:.0f} degrees"
    )
    is_by_heart = ours["train"]["level_median"] < ours["test"]["level_median"] / 3
    return f"{words}, since the training songs are learned by heart." if is_by_heart else f"{words}."


def _warning(measured: Mapping[str, Any]) -> str:
    lowest = min(one["train"]["level_median"] for one in measured.values())
    if lowest < 0.9 * UNTRAINED:
        return ""
    return (
        f"Nobody has learned much: the lowest loss level of a method is {lowest:.2f}, where a network that knows "
        f"nothing has {UNTRAINED:.2f}. With these settings the rows say little about the methods."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
