"""Rays on a concave and on a convex front, with step sizes over a factor of 30, without and with gradient noise.

All runs of a problem go side by side through `FereroPI.update` with a stack of preferences, which is what one
`ferero.Steer` each would do (a test compares them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

import ferero
from ferero_lab.bench.control.synthetic import DIMENSIONS, ProblemName, gradient_noise, make_problem, starts
from ferero_lab.bench.control.tasks import ray_at
from ferero_lab.bench.measure import Row

__all__ = ["Setting", "bench_fronts", "steer_many"]

RATES: dict[ProblemName, tuple[float, ...]] = {
    "exponential": (0.01, 0.03, 0.1, 0.3),
    "quadratic": (0.003, 0.01, 0.03, 0.09),
}
SHAPES: dict[ProblemName, str] = {"exponential": "concave", "quadratic": "convex"}
NOISE = 0.3


@dataclass(frozen=True)
class Setting:
    """One run; as the arguments of `ferero_lab.bench.control.tasks.synthetic` and `train`."""

    degrees: float
    learning_rate: float
    noise: float = 0.0
    seed: int = 0


def bench_fronts(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """All rows, and every run."""
    angles = torch.linspace(9, 81, 4 if quick else 10, dtype=torch.float64).tolist()
    steps, seeds = (1500, (0,)) if quick else (3000, (0, 1, 2))
    rows, runs = [], []
    for problem, every_rate in RATES.items():
        rates = every_rate[1::2] if quick else every_rate
        settings = [Setting(*one) for one in product(angles, rates, (0.0, NOISE), seeds)]
        tail = steer_many(problem, settings, steps, tick)
        rays = torch.stack([ray_at(setting.degrees) for setting in settings])
        worst = ferero.ray_error(tail, rays[:, None]).amax(dim=1)
        mean = ferero.ray_error(tail.mean(dim=1), rays)
        rows += _rows(problem, settings, worst, mean)
        runs += [
            {"part": problem, **vars(setting), "worst": float(w), "mean": float(a), "losses": last.tolist()}
            for setting, w, a, last in zip(settings, worst, mean, tail[:, -1], strict=True)
        ]
    return rows, runs


def steer_many(
    problem: ProblemName, settings: list[Setting], steps: int, tick: Callable[[], None] = lambda: None
) -> Tensor:
    """Losses over the last tenth of the steps, (settings, steps / 10, 2)."""
    function, method = make_problem(problem), ferero.FereroPI()
    preference = ferero.Preference.stack([ferero.Preference.ray(ray_at(one.degrees)) for one in settings])
    rates, sizes = (
        torch.tensor([getattr(one, name) for one in settings], dtype=torch.float64)[:, None]
        for name in ("learning_rate", "noise")
    )
    seeds = sorted({one.seed for one in settings})
    noise = torch.stack([gradient_noise(1.0, steps, DIMENSIONS, seed) for seed in seeds], dim=1)
    which = torch.tensor([seeds.index(one.seed) for one in settings])
    theta = torch.stack([starts(1, one.seed)[0] for one in settings])
    state, tail = method.init(preference), []
    for step in range(steps):
        theta.requires_grad_()
        losses = function(theta)
        decision, state = method.update(preference, ferero.Observation(losses.detach()), state)
        (slope,) = torch.autograd.grad((decision.weights * losses).sum(), theta)
        slope = slope + sizes * (decision.weights[:, None, :] @ noise[step, which])[:, 0]
        theta = theta.detach() - rates * slope
        if step >= steps - steps // 10:
            tail.append(function(theta))
        if step % 100 == 0:
            tick()
    return torch.stack(tail, dim=1)


def _rows(problem: ProblemName, settings: list[Setting], worst: Tensor, mean: Tensor) -> list[Row]:
    noisy = torch.tensor([one.noise > 0 for one in settings])
    angles, rates = {one.degrees for one in settings}, sorted({one.learning_rate for one in settings})
    group = f"{problem} ({SHAPES[problem]} front)"
    note = f"{len(angles)} rays, SGD {rates[0]:g} to {rates[-1]:g}, {len({one.seed for one in settings})} starts each"
    return [
        Row(group, "worst error in degrees", _max(worst[~noisy]), 0.1, note=note),
        Row(group, "noise: error of mean losses", _max(mean[noisy]), 0.5, note=_where(mean, noisy, settings)),
        Row(group, "noise: worst error", _max(worst[noisy]), 5.0, note=_where(worst, noisy, settings)),
    ]


def _max(values: Tensor) -> float:
    return float(values.nan_to_num(nan=torch.inf).max())


def _where(values: Tensor, noisy: Tensor, settings: list[Setting]) -> str:
    """The median over all runs, and which was the worst."""
    place = int(torch.where(noisy, values, 0.0).nan_to_num(nan=torch.inf).argmax())
    one = settings[place]
    return f"median {float(values[noisy].median()):.2g}; the worst at {one.degrees:g}, SGD {one.learning_rate:g}"
