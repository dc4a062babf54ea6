"""What the rivals reached in one cell, and what another score is worth beside it: met, regret, speed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from typing import Any, TypeAlias

import numpy as np

from ferero_lab.bench.tasks.rivals import RIVALS
from ferero_lab.bench.tasks.score import Score

__all__ = ["FAIR", "Figures", "Key", "Line", "Reached", "figures", "key_of", "reached_by_rivals", "score_of"]

Line: TypeAlias = Mapping[str, Any]
"""What one cell left in a file, as plain data."""

Key: TypeAlias = tuple[str, str, str, int]
"""Half, task, form and seed of a cell."""

Figures: TypeAlias = dict[str, Any]

FAIR = 0.1
"""Largest regret of a rival whose speed counts: to be quick at the cost of the objective is no art."""


def key_of(line: Line) -> Key:
    """Which cell a line is about."""
    return line["half"], line["task"], line["form"], line["seed"]


def score_of(plain: Sequence[float | None]) -> Score:
    """A score from its four numbers; JSON has no word for inf."""
    return Score(*(inf if value is None else value for value in plain))


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
