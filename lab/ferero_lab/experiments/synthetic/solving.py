"""Runs one panel: every direction from every start, and how well each was met."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import torch

from ferero.optimize import Result, minimize_many
from ferero_lab.experiments.experiment import Context, Found
from ferero_lab.experiments.synthetic.cases import Case, Choice
from ferero_lab.experiments.synthetic.wishes import Wish, make_wishes
from ferero_lab.problems import Exponential

__all__ = ["DEGREES", "DISTANCE", "solve_case"]

DEGREES, DISTANCE = 0.1, 0.01  # what counts as on the ray, and on the front
PRACTICE = 1000  # the seed of the starts on which a step is chosen; none that is reported
PATH = 60  # points kept of a trajectory


def solve_case(case: Case, seeds: int, context: Context) -> Found:
    """The runs of a panel.

    Args:
        case: which.
        seeds: 0, ..., seeds - 1; trajectories are kept of the first.
        context: to tell how far it is.

    Returns:
        "setting", and "runs" with one dictionary each.
    """
    rounds = len(case.choices) + seeds if len(case.choices) > 1 else seeds
    choice = case.choices[0] if len(case.choices) == 1 else _best(case, context, rounds)
    runs = []
    for seed in range(seeds):
        runs += _solve(case, choice, seed, with_path=seed == 0)
        context.advance(rounds - seeds + seed + 1, rounds)
    return {"setting": choice.words, "runs": runs}


def _best(case: Case, context: Context, rounds: int) -> Choice:
    """The choice that reaches most directions from other starts, then the one with the smallest errors."""
    scores = []
    for index, choice in enumerate(case.choices):
        runs = _solve(case, choice, PRACTICE, with_path=False)
        scores.append((-sum(run["reached"] for run in runs), median(run["error"] + run["distance"] for run in runs)))
        context.advance(index + 1, rounds)
    return case.choices[scores.index(min(scores))]


def _solve(case: Case, choice: Choice, seed: int, *, with_path: bool) -> list[dict[str, Any]]:
    wishes, starts = make_wishes(case.wanted, case.count, case.start, seed, case.A)
    preferences = [wish.preference for wish in wishes]
    results = minimize_many(
        Exponential(), starts, preferences, method=choice.method, step=choice.step, max_iter=choice.max_iter
    )
    return [
        {"seed": seed, **_judge(wish, result, has_wish=case.wanted != "nothing"), "path": _path(result, with_path)}
        for wish, result in zip(wishes, results, strict=True)
    ]


def _judge(wish: Wish, result: Result, *, has_wish: bool) -> dict[str, Any]:
    losses = torch.as_tensor(result.losses)
    distance = float(Exponential().distance_to_front(losses))
    error = wish.error(losses)
    return {
        "angle": wish.angle,
        "through": wish.through.tolist(),
        "losses": losses.tolist(),
        "weights": torch.as_tensor(result.weights).tolist(),
        "error": error if has_wish else None,
        "violation": wish.violation(losses) if has_wish else None,
        "distance": distance,
        "reached": has_wish and error < DEGREES and distance < DISTANCE,
        "status": result.status,
        "iterations": result.iterations,
        "evaluations": result.evaluations,
    }


def _path(result: Result, wanted: bool) -> list[list[float]]:
    losses = result.history.losses
    if not wanted:
        return []
    at = np.unique(np.round(np.linspace(0, len(losses) - 1, min(PATH, len(losses)))).astype(int))
    return [[float(f"{value:.6g}") for value in point] for point in losses[at]]
