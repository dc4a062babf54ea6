"""From the lines of all cells to figures: ferero beside every rival setting, by family and by form.

Everything is counted over the cells that at least one rival setting meets, and rivals over the same cells as ferero.
A setting is *best* by its share of met cells, then by its median regret: once with hindsight on the very cells that are
reported, once chosen on the other half, as a user would have to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from typing import Any, TypeAlias

import numpy as np

from ferero_lab.bench.tasks.cell import Key, Line, key_of, score_of
from ferero_lab.bench.tasks.registry import family_of
from ferero_lab.bench.tasks.rivals import RIVALS
from ferero_lab.bench.tasks.train import Score

__all__ = ["FAIR", "Figures", "Reached", "figures", "reached_by_rivals", "summarise", "summarise_variants"]

Figures: TypeAlias = dict[str, Any]

FAIR = 0.1
"""Largest regret of a rival whose speed counts, so that it is not quick at the cost of the objective."""


@dataclass(frozen=True)
class Reached:
    """All rival settings in one cell.

    Attributes:
        scores: one for each of `RIVALS`.
        alone: objective alone, constraint alone.
    """

    scores: tuple[Score, ...]
    alone: tuple[Score, ...]

    @property
    def is_met(self) -> bool:
        """Whether any of them meets it."""
        return any(score.is_met for score in self.scores)

    @cached_property
    def best(self) -> float:
        """The best objective of those that meet it; inf for none."""
        return min((score.objective for score in self.scores if score.is_met), default=inf)

    @cached_property
    def size(self) -> float:
        """What a regret is relative to: the best objective, or its spread between the two extremes if larger."""
        spread = abs(self.alone[0].objective - self.alone[1].objective)
        return max(abs(self.best), spread if isfinite(spread) else 0.0)

    def regret(self, score: Score) -> float:
        """How much worse the objective is than the best, over its size; below 0 where it is better."""
        more = score.objective - self.best
        return 0.0 if more == 0 else float(np.divide(more, self.size))

    @cached_property
    def quickest(self) -> float:
        """The fewest steps after which a rival that meets it at a fair regret holds it for good."""
        fair = (one.held for one in self.scores if one.is_met and self.regret(one) <= FAIR)
        return min(fair, default=inf)


def reached_by_rivals(lines: Iterable[Line]) -> dict[Key, Reached]:
    """What rivals reached, cell by cell."""
    found = {}
    for line in lines:
        scores = tuple(map(score_of, line["rivals"]))
        found[key_of(line)] = Reached(scores[: len(RIVALS)], scores[len(RIVALS) :])
    return found


def figures(scores: Mapping[Key, Score], reached: Mapping[Key, Reached]) -> Figures:
    """One method over the cells that have a score and that any rival meets; None where there is nothing to tell.

    Returns:
        ``cells``, of which ``met``, their ``share``; ``regret`` and ``regret_90`` (median and 90 % quantile) and
        ``speed`` (median of the steps until held over the quickest fair rival's), all three over the met ones.
    """
    judged = [(score, reached[key]) for key, score in scores.items() if key in reached and reached[key].is_met]
    met = [(score, beside) for score, beside in judged if score.is_met]
    regrets = [beside.regret(score) for score, beside in met]
    speeds = [score.held / beside.quickest for score, beside in met]
    return {
        "cells": len(judged),
        "met": len(met),
        "share": len(met) / len(judged) if judged else None,
        "regret": _quantile(regrets, 0.5),
        "regret_90": _quantile(regrets, 0.9),
        "speed": _quantile(speeds, 0.5),
    }


def _quantile(values: Sequence[float], q: float) -> float | None:
    if not values:
        return None
    found = float(np.quantile(values, q))
    return float(f"{found:.5g}") if isfinite(found) else None


def summarise(rivals: Iterable[Line], ferero: Iterable[Line], tuned_on: Iterable[Line] = ()) -> dict[str, Any]:
    """All figures as plain data.

    Args:
        rivals: lines with "rivals".
        ferero: lines with "ferero" and "status"; cells that no line of rivals is about are left out.
        tuned_on: lines with "rivals" of the half on which a setting may be chosen; none for no such figures.

    Returns:
        ``cells`` (both trained), ``attainable`` (a rival meets them), ``beyond`` (ferero meets, no rival does),
        ``ferero`` (see `figures`, and ``saturated``), ``settings`` and ``rules`` of the rivals, ``best`` of all,
        ``families``, ``forms`` and ``missed``.
    """
    everywhere = reached_by_rivals(rivals)
    lines = {key_of(line): line for line in ferero if key_of(line) in everywhere}
    reached = {key: everywhere[key] for key in lines}
    scores = {key: score_of(line["ferero"]) for key, line in lines.items()}
    attainable = {key for key, one in reached.items() if one.is_met}
    settings = _settings(reached)
    tuned = _settings(reached_by_rivals(tuned_on))
    best = _best(settings)
    return {
        "cells": len(scores),
        "attainable": len(attainable),
        "beyond": sum(scores[key].is_met for key in scores if key not in attainable),
        "ferero": figures(scores, reached)
        | {"saturated": sum(lines[key]["status"] == "saturated" for key in attainable)},
        "best": _with_choice(settings, tuned),
        "rules": [_with_choice(*(_of_rule(name, all_) for all_ in (settings, tuned))) for name in _rules()],
        "settings": settings,
        "families": _by(lambda key: family_of(key[1]), scores, reached, best),
        "forms": _by(lambda key: key[2], scores, reached, best),
        "missed": [_missed(lines[key], reached[key]) for key in sorted(attainable) if not scores[key].is_met],
    }


def summarise_variants(rivals: Iterable[Line], variants: Iterable[Line]) -> list[Figures]:
    """One entry for each variant, in the order of the lines; empty where there are none."""
    reached = reached_by_rivals(rivals)
    scores: dict[str, dict[Key, Score]] = {}
    for line in variants:
        for title, plain in line["variants"].items():
            scores.setdefault(title, {})[key_of(line)] = score_of(plain)
    return [{"title": title} | figures(found, reached) for title, found in scores.items()]


def _settings(reached: Mapping[Key, Reached]) -> list[Figures]:
    if not reached:
        return []
    by_setting = [{key: one.scores[i] for key, one in reached.items()} for i in range(len(RIVALS))]
    return [
        {"rule": rival.name, "setting": rival.setting} | figures(scores, reached)
        for rival, scores in zip(RIVALS, by_setting, strict=True)
    ]


def _rules() -> list[str]:
    return list(dict.fromkeys(rival.name for rival in RIVALS))


def _of_rule(name: str, settings: Sequence[Figures]) -> list[Figures]:
    return [one for one in settings if one["rule"] == name]


def _best(settings: Sequence[Figures]) -> Figures:
    def order(one: Figures) -> tuple[float, float]:
        return one["share"] or 0.0, -(one["regret"] if one["regret"] is not None else float("inf"))

    return max(settings, key=order, default={})


def _with_choice(settings: Sequence[Figures], tuned: Sequence[Figures]) -> Figures:
    """The best setting with hindsight, and under ``chosen`` the one that is best on the half for tuning."""
    choice = _best(tuned)
    same = [one for one in settings if choice and (one["rule"], one["setting"]) == (choice["rule"], choice["setting"])]
    return _best(settings) | {"chosen": same[0] if same else None}


def _by(
    part: Callable[[Key], str], scores: Mapping[Key, Score], reached: Mapping[Key, Reached], best: Figures
) -> list[Figures]:
    """Ferero's figures for each part of the cells, and how many of them the best rival setting meets."""
    titles = [(rival.name, rival.setting) for rival in RIVALS]
    place = titles.index((best["rule"], best["setting"])) if best else 0
    found = []
    for name in dict.fromkeys(map(part, scores)):
        own = {key: score for key, score in scores.items() if part(key) == name}
        rival = {key: reached[key].scores[place] for key in own}
        found.append({"name": name} | figures(own, reached) | {"best_met": figures(rival, reached)["met"]})
    return found


def _missed(line: Line, beside: Reached) -> dict[str, Any]:
    mean, worst, _, held = line["ferero"]
    return {
        **{name: line[name] for name in ("task", "form", "seed", "status")},
        "mean": mean,
        "worst": worst,
        "held": held,
        "rivals_that_meet": sum(score.is_met for score in beside.scores),
    }
