"""What training could reach: fixed weights, searched for each ray; and preferences that they show attainable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ferero
from ferero.preference import Preference
from ferero_lab.experiments.experiment import Context
from ferero_lab.experiments.images.plan import NAMES, ImageTask, fixed_weights
from ferero_lab.experiments.images.train import Recipe, models_of, train
from ferero_lab.fixed_weights import closest, enclosing, search_fixed_weights

__all__ = ["Tried", "angle", "attainable_preferences", "closest", "find_oracles", "level", "tried_data"]

GRID = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
"""Weights of the left loss that are tried at first."""
SINGLE = (1.0, 0.0)
"""Each task alone."""


@dataclass(frozen=True)
class Tried:
    """Fixed weights and what came of them.

    Attributes:
        weight: that of the left loss.
        losses: of the training images, (2,).
        evaluated: all figures.
    """

    weight: float
    losses: tuple[float, float]
    evaluated: dict[str, dict[str, float]]

    @property
    def angle(self) -> float:
        """Degrees to the first axis."""
        return angle(self.losses)


def angle(losses: Sequence[float]) -> float:
    """Degrees of losses (2,) to the first axis."""
    return math.degrees(math.atan2(losses[1], losses[0]))


def level(losses: Sequence[float], degrees: float) -> float:
    """How far along the ray at that angle losses (2,) are."""
    return losses[0] * math.cos(math.radians(degrees)) + losses[1] * math.sin(math.radians(degrees))


def find_oracles(
    task: ImageTask, degrees: Sequence[float], recipe: Recipe, seed: int, context: Context, rounds: int = 2
) -> tuple[list[Tried], float]:
    """A grid of fixed weights, each task alone, then weights between those whose angles enclose a ray.

    Returns:
        All that were tried, ordered by weight, and the seconds it took.
    """
    seconds: list[float] = []

    def train_all(weights: list[float]) -> list[Tried]:
        preferences = [fixed_weights(weight) for weight in weights]
        method = ferero.FereroPI()  # with one expression and no constraint its weights are those of the expression
        front, took = train(task, method, preferences, recipe, (seed,), context, name=f"oracle-{len(seconds)}")
        seconds.append(took)
        return [
            Tried(weight, (model["losses"][0], model["losses"][1]), model["evaluated"])
            for weight, model in zip(weights, models_of(front), strict=True)
        ]

    first = {*GRID, *SINGLE}
    tried = search_fixed_weights(
        sorted(first), train_all, partial(_between, degrees=degrees, count=len(first)), rounds + 1
    )
    return tried, sum(seconds)


def _between(tried: list[Tried], degrees: Sequence[float], count: int) -> list[float]:
    """New weights for every ray, between its two neighbours; always ``count``, so that nothing is compiled anew."""
    found: set[float] = set()
    share = max(1, count // max(len(degrees), 1))
    for ray in degrees:
        place = enclosing(tried, ray)
        if place is None:
            continue
        low, high, middle = place
        spots = [middle + (j - (share - 1) / 2) * 0.5 / share for j in range(share)]
        found |= {round(low + min(max(spot, 0.02), 0.98) * (high - low), 6) for spot in spots}
    found -= {one.weight for one in tried}
    spare = 0.5
    while found and len(found) < count:  # weights for no ray keep the number of models
        spare = round(spare * 0.97, 6)
        found.add(spare)
    return sorted(found)[:count]


def attainable_preferences(tried: Sequence[Tried]) -> dict[str, Preference]:
    """Shifted rays, differences and thresholds that fixed weights meet with the same budget.

    They are read off the losses that fixed weights between 0.2 and 0.8 reached. A shifted ray passes through one of
    them and a threshold is met by one of them; a difference is half of one's, and lies between those of two fixed
    weights wherever some weights favour the left loss and others the right one. Of other seeds nothing is known.
    """
    inner = [one for one in tried if 0.2 <= one.weight <= 0.8]
    shift = [0.5 * min(one.losses[i] for one in inner) for i in range(2)]
    low, high = inner[0], inner[-1]
    middle = min(inner, key=lambda one: abs(one.weight - 0.5))
    f = ferero.objectives(*NAMES)
    preferences: dict[str, Preference] = {}
    for label, one in (("left", high), ("middle", middle), ("right", low)):
        vector = [one.losses[i] - shift[i] for i in range(2)]
        preferences[f"shifted ray, {label}"] = Preference.ray(vector, through=shift, names=NAMES)
    for label, one in (("left", high), ("middle", middle), ("right", low)):
        gap = round(0.5 * (one.losses[0] - one.losses[1]), 4)
        preferences[f"difference, {label}"] = Preference(f, [f.left - f.right == gap])
    for share in (0.25, 0.75):
        bound = round(share * high.losses[0] + (1 - share) * middle.losses[0], 4)
        preferences[f"left bounded, {share:g}"] = Preference(f, [f.left <= bound], minimize=f.right)
    bound = round(0.5 * low.losses[1] + 0.5 * middle.losses[1], 4)
    preferences["right bounded, 0.5"] = Preference(f, [f.right <= bound], minimize=f.left)
    return preferences


def tried_data(tried: Sequence[Tried]) -> list[dict[str, Any]]:
    """As plain data."""
    return [{"weight": one.weight, "losses": list(one.losses), "evaluated": one.evaluated} for one in tried]
