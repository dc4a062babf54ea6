"""Every method on the paper's two-objective problem: the same rays, starts and judge, each with its best own step.

A run counts as reached when its losses are within 0.1 degrees of the ray and 0.01 of the front, and it is over then; so
evaluations are what a method needs to get there, not what its stopping test needs to believe it. A fixed step is the
best of a grid, found on other rays than those that count: with that every method gets more than its authors gave it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor

import ferero
from ferero.methods import Method
from ferero_lab.bench.core.rays import judge
from ferero_lab.bench.measure import Row, seconds
from ferero_lab.problems import Exponential, Problem

__all__ = ["StepSetting", "attempt", "bench_two_objectives"]

FAMILIES = ("easy", "normal", "hard")
STEPS = (0.03, 0.1, 0.3, 1.0)
GAMMAS = (0.01, 0.1, 1.0)
MAX_ITER = 300
DEGREES, DISTANCE = 0.1, 0.01


@dataclass(frozen=True)
class StepSetting:
    """A method with its step; ``knows_ray`` is False for one that takes no preference."""

    name: str
    method: Method[Any]
    step: float | Literal["auto"]
    knows_ray: bool = True


@dataclass(frozen=True)
class Try:
    """One ray from one start by one setting."""

    reached: bool
    on_front: bool
    error: float
    evaluations: int
    time: float


def settings() -> dict[str, list[StepSetting]]:
    """The candidates of each row of the table; of several the best is taken."""
    fixed: dict[str, list[Method[Any]]] = {
        "Ferero": [ferero.Ferero(bound=10.0)],
        "FereroSA": [ferero.FereroSA(gamma=gamma, bound=10.0) for gamma in GAMMAS],
        "FereroQG": [ferero.FereroQG()],
        "FereroPI": [ferero.FereroPI()],
        "LinearScalarization": [ferero.LinearScalarization()],
        "Tchebycheff": [ferero.Tchebycheff()],
        "SmoothTchebycheff": [ferero.SmoothTchebycheff(mu=0.01), ferero.SmoothTchebycheff(mu=0.1)],
        "MGDA": [ferero.MGDA()],
        "PMTL": [ferero.PMTL()],
        "EPO": [ferero.EPO()],
        "WCMGDA (our reading)": [ferero.WCMGDA()],
        "XWCMGDA (our reading)": [ferero.XWCMGDA()],
    }
    merited: list[Method[Any]] = [ferero.Ferero(), ferero.LinearScalarization(), ferero.MGDA()]
    merited.append(ferero.SmoothTchebycheff(mu=0.01))
    table = {f"{name}, fixed step": _fixed(name, methods) for name, methods in fixed.items()}
    for method in merited:
        name = f"{type(method).__name__}, step='auto'"
        table[name] = [StepSetting(name, method, "auto", not isinstance(method, ferero.MGDA))]
    return table


def _fixed(name: str, methods: list[Method[Any]]) -> list[StepSetting]:
    return [StepSetting(f"{name}, fixed step", one, step, name != "MGDA") for one in methods for step in STEPS]


def bench_two_objectives(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """Rows of success, evaluations and time; the thousands of runs behind them are not kept."""
    count, trials = (3, 1) if quick else (100, 10)
    problem, rows = Exponential(), list[Row]()
    for family in FAMILIES[: 1 if quick else None]:
        generator = torch.Generator().manual_seed(21)
        rays, starts = problem.rays(count, generator), problem.starts(family, count, generator)
        practice = problem.rays(trials, generator), problem.starts(family, trials, generator)
        for candidates in settings().values():
            setting = candidates[0] if len(candidates) == 1 else _best(problem, candidates, *practice)
            tries = [attempt(problem, start, ray, setting) for ray, start in zip(rays, starts, strict=True)]
            rows += _rows(family, setting, tries)
            tick()
    return rows, []


def attempt(problem: Problem, start: Tensor, ray: Tensor, setting: StepSetting) -> Try:
    """Run until the ray is reached, the method stops by itself, or `MAX_ITER` steps are taken."""
    preference = ferero.Preference.ray(ray) if setting.knows_ray else ferero.Preference.pareto(2)

    def stop_there(progress: ferero.Progress) -> None:
        losses = torch.as_tensor(progress.losses)
        if float(ferero.ray_error(losses, ray)) < DEGREES and float(problem.distance_to_front(losses)) < DISTANCE:
            raise StopIteration

    found: list[ferero.Result] = []
    time = seconds(
        lambda: found.append(
            ferero.minimize(
                problem,
                start,
                preference,
                method=setting.method,
                step=setting.step,
                max_iter=MAX_ITER,
                tol=1e-12,
                callback=stop_there,
            )
        )
    )
    end = judge(problem, found[0].losses, ray, found[0].evaluations, time, DEGREES, DISTANCE)
    return Try(end.reached, end.distance < DISTANCE, end.error, end.evaluations, time)


def _best(problem: Problem, candidates: list[StepSetting], rays: Tensor, starts: Tensor) -> StepSetting:
    """The candidate that reaches most rays, then the one with the smallest errors."""

    def quality(setting: StepSetting) -> tuple[float, float]:
        tries = [attempt(problem, start, ray, setting) for ray, start in zip(rays, starts, strict=True)]
        return -sum(one.reached for one in tries), median(one.error for one in tries)

    return min(candidates, key=quality)


def _rows(family: str, setting: StepSetting, tries: list[Try]) -> list[Row]:
    there = [one for one in tries if one.reached]
    group, note = f"two objectives, {family}", _words(setting)
    share = len(there) / len(tries)
    front = sum(one.on_front for one in tries) / len(tries)
    error = median(one.error for one in tries)
    rows = [
        Row(group, f"{setting.name}: reached", share, higher_is_better=True, note=f"{len(tries)} rays, {note}"),
        Row(group, f"{setting.name}: on the front", front, higher_is_better=True),
        Row(group, f"{setting.name}: ray error in degrees, median", error),
    ]
    if there:
        evaluations, time = (median(getattr(one, name) for one in there) for name in ("evaluations", "time"))
        rows.append(Row(group, f"{setting.name}: evaluations until there, median", evaluations))
        rows.append(Row(group, f"{setting.name}: milliseconds until there, median", 1e3 * time))
    return rows


def _words(setting: StepSetting) -> str:
    return f"{setting.method}, step {setting.step}"
