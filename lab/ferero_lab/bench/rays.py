"""Rays on the exponential problems: how many are reached, in how many evaluations, at what price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
import piqp
import torch
from torch import Tensor

import ferero
from ferero_lab.bench.measure import Row, seconds, summary
from ferero_lab.problems import Exponential, ExponentialThree, Problem

__all__ = ["Attempt", "bench_rays", "solve_ray"]

FAMILIES = {
    "normal": 25,
    "easy": 10,
    "hard": 16,
    "hard-mixed": None,
}  # and the most evaluations, in the median


@dataclass(frozen=True)
class Attempt:
    """One ray from one start, by whatever method."""

    reached: bool
    evaluations: int
    time: float
    error: float
    distance: float


def solve_ray(problem: Problem, start: Tensor, ray: Tensor, degrees: float, distance: float = 0.01) -> Attempt:
    """`ferero.minimize` with its defaults."""
    preference = ferero.Preference.ray(ray)
    found: list[ferero.Result] = []
    time = seconds(lambda: found.append(ferero.minimize(problem, start, preference)))
    return judge(problem, found[0].losses, ray, found[0].evaluations, time, degrees, distance)


def judge(
    problem: Problem,
    losses: Tensor,
    ray: Tensor,
    evaluations: int,
    time: float,
    degrees: float,
    distance: float,
) -> Attempt:
    """Whether losses are on the ray and on the front."""
    error = float(ferero.ray_error(losses, ray))
    off = float(problem.distance_to_front(losses))
    return Attempt(error < degrees and off < distance, evaluations, time, error, off)


def bench_rays(quick: bool, tick: Callable[[], None]) -> list[Row]:
    """All rows about rays."""
    return [*_two(60 if quick else 1000, tick), *_three(30 if quick else 300, tick), *_trace(tick)]


def _two(count: int, tick: Callable[[], None]) -> list[Row]:
    problem, rows = Exponential(), []
    for family, most in FAMILIES.items():
        generator = torch.Generator().manual_seed(7)
        rays, starts = problem.rays(count, generator), problem.starts(family, count, generator)
        attempts, prices = [], []
        for ray, start in zip(rays, starts, strict=True):
            attempts.append(solve_ray(problem, start, ray, 0.1))
            prices.append((seconds(partial(_losses_and_jacobian, problem, start)), seconds(_bare_piqp)))
            tick()
        group = f"two objectives, {family}"
        evaluations = [attempt.evaluations for attempt in attempts]
        share = sum(attempt.reached for attempt in attempts) / count
        bar = 0.99 if most is not None else None
        rows.append(Row(group, "reached (0.1 degrees, 0.01 of the front)", share, bar, True, f"{count} random rays"))
        rows.append(Row(group, "evaluations, median", median(evaluations), most, note=summary(evaluations)))
        unit = median(one for one, _ in prices) + median(bare for _, bare in prices)
        ratio = median(attempt.time / (attempt.evaluations * unit) for attempt in attempts)
        milliseconds = 1e3 * median(attempt.time for attempt in attempts)
        limit = 3.0 if most is not None else None
        rows.append(
            Row(
                group,
                "time / (evaluations x (F and Jacobian + piqp))",
                ratio,
                limit,
                note=f"{milliseconds:.1f} ms",
            )
        )
    return rows


def _three(count: int, tick: Callable[[], None]) -> list[Row]:
    problem = ExponentialThree()
    generator = torch.Generator().manual_seed(8)
    rays, starts = problem.rays(count, generator), problem.starts("easy", count, generator)
    attempts = []
    for ray, start in zip(rays, starts, strict=True):
        attempts.append(solve_ray(problem, start, ray, 0.2))
        tick()
    evaluations = [attempt.evaluations for attempt in attempts]
    share = sum(attempt.reached for attempt in attempts) / count
    note = f"{count} rays through the front"
    return [
        Row("three objectives", "reached (0.2 degrees, 0.01 of the front)", share, 0.97, True, note),
        Row("three objectives", "evaluations, median", median(evaluations), note=summary(evaluations)),
    ]


def _trace(tick: Callable[[], None]) -> list[Row]:
    problem, rows = Exponential(), []
    for family in ("easy", "hard", "normal"):
        generator = torch.Generator().manual_seed(9)
        rays, starts = problem.rays(100, generator), problem.starts(family, 100, generator)
        preferences = [ferero.Preference.ray(ray) for ray in rays]
        together, alone = _together_and_alone(problem, starts, preferences, tick)
        note = f"{1e3 * together:.0f} ms against {1e3 * alone:.1f} ms"
        rows.append(Row("trace", f"100 rays over one minimize, {family} starts", together / alone, 8.0, note=note))
    return rows


def _together_and_alone(
    problem: Problem, starts: Tensor, preferences: list[ferero.Preference], tick: Callable[[], None]
) -> tuple[float, float]:
    """Median times of five traces and of twenty single solves of the same, in turn."""
    ferero.trace(problem, starts, preferences)
    together, alone = [], []
    for turn in range(5):
        together.append(seconds(lambda: ferero.trace(problem, starts, preferences)))
        for i in range(4 * turn, 4 * turn + 4):
            call = partial(ferero.minimize, problem, starts[i], preferences[i])
            alone.append(seconds(call))
        tick()
    return median(together), median(alone)


def _losses_and_jacobian(problem: Problem, start: Tensor) -> list[Tensor]:
    x = start.clone().requires_grad_()
    losses = problem(x)
    return [torch.autograd.grad(losses[i], x, retain_graph=i + 1 < problem.m)[0] for i in range(problem.m)]


def _bare_piqp() -> None:
    """One call for two losses and their equality."""
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-12
    Q = np.asfortranarray([[1.0, 0.2, 0.4], [0.2, 1.0, -0.4], [0.4, -0.4, 0.4]])
    lower, upper = np.array([0.0, 0.0, -np.inf]), np.full(3, np.inf)
    solver.setup(Q, np.array([0.0, 0.0, -0.1]), np.asfortranarray([[0.5, 0.5, 0.0]]), np.ones(1), x_l=lower, x_u=upper)
    solver.solve()
