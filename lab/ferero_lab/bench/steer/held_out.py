"""A ray of validation losses, observed now and then, while the training losses are differentiated."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import product
from typing import Any

import torch
from torch import nn

import ferero
from ferero_lab.bench.measure import Row
from ferero_lab.bench.steer.steer_task import (
    OptimizerName,
    ProblemName,
    SteerTask,
    classify,
    degrees_off,
    make_optimizer,
    ray_at,
    synthetic,
    train,
)
from ferero_lab.data import PairNet, Splits, digit_pairs

__all__ = ["bench_held_out", "few_pairs", "observe_network", "observe_synthetic"]

PERIODS = (1, 50, 500)
"""Steps between two observations."""
BAR = 3.0
EXAMPLES, HIDDEN, BATCH = 256, 32, 64
NETWORK_RAYS, RAYS = (20.0, 70.0), (30.0, 60.0)
NETWORK_RATES: tuple[tuple[OptimizerName, float], ...] = (("sgd", 0.1), ("sgd", 0.3), ("adam", 1e-3), ("adam", 3e-3))
RATES: dict[ProblemName, tuple[float, ...]] = {"exponential": (0.03, 0.3), "quadratic": (0.01, 0.09)}
SHIFT, SWAY, SWAY_PERIOD = (0.1, 0.3), 0.02, 3000


def bench_held_out(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """All rows, and every run."""
    rows, runs = [], []
    for bench in (_networks, _synthetics):
        more, done = bench(quick, tick)
        rows += more
        runs += done
    return rows, runs


# few images, so that training overfits ------------------------------------------------------------------


def few_pairs(optimizer: OptimizerName, learning_rate: float, degrees: float, steps: int = 3000) -> SteerTask:
    """256 images and 32 hidden units: training losses are differentiated, validation losses evaluated and steered."""
    data = _few_data()
    losses, evaluate = classify(data.train, data.validation, BATCH, steps)
    return SteerTask(
        name=f"few digit pairs, {degrees:g} degrees of the validation losses, {optimizer} {learning_rate:g}",
        preference=ferero.Preference.ray(ray_at(degrees)),
        model=lambda seed: PairNet(HIDDEN, seed=seed),
        losses=losses,
        evaluate=evaluate,
        optimizer=make_optimizer(optimizer, learning_rate),
        steps=steps,
        error=partial(degrees_off, ray=ray_at(degrees)),
        every=20,
    )


def observe_network(task: SteerTask, period: int | None, seed: int = 0) -> dict[str, Any]:
    """Train with validation losses observed every so many steps, or never; the errors are those on validation data."""
    steer = ferero.Steer(task.preference)

    def after_step(step: int, model: nn.Module) -> None:
        if period is not None and step % period == 0:
            steer.observe(**dict(zip(task.preference.names, task.evaluate(model), strict=True)))

    run = train(task, steer, seed, after_step)
    result = {"part": task.name, "period": period, "worst": run.worst, "mean": run.mean, "losses": run.losses.tolist()}
    return result | {"training": steer.losses.tolist(), "seconds": run.seconds}


@lru_cache(maxsize=1)
def _few_data() -> Splits:
    return digit_pairs(train=EXAMPLES)


def _networks(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    group = f"validation losses, {EXAMPLES} digit pairs"
    rows, runs = [], []
    for period in (None, 50) if quick else (None, *PERIODS):
        # the bar is for every 50 steps; the other periods run with one rate of each optimizer
        rates = NETWORK_RATES[1:2] if quick else NETWORK_RATES if period == 50 else NETWORK_RATES[1:3]
        done = []
        for degrees, (optimizer, rate) in product(NETWORK_RAYS[:1] if quick else NETWORK_RAYS, rates):
            done.append(observe_network(few_pairs(optimizer, rate, degrees, 1500 if quick else 3000), period))
            tick()
        rows.append(_row(group, period, done))
        runs += done
    return rows, runs


def _row(group: str, period: int | None, done: list[dict[str, Any]]) -> Row:
    title = "never observed (training-driven)" if period is None else f"observed every {period} steps"
    worst = max(done, key=lambda one: one["worst"])
    others = sorted(one["worst"] for one in done)[:-1]
    note = f"{len(done)} runs; the worst: {worst['part']}"
    if others:
        note += f"; the others at most {others[-1]:.2g}"
    return Row(group, f"worst error in degrees, {title}", worst["worst"], None if period is None else BAR, note=note)


# validation values that differ by a shift and a slow sway ------------------------------------------------


def observe_synthetic(
    problem: ProblemName, degrees: float, learning_rate: float, period: int | None, steps: int = 3000
) -> dict[str, Any]:
    """Steer ``f + (0.1, 0.3) + 0.02 (sin, cos)(2 pi step / 3000)``, of which training sees only f."""
    task = synthetic(problem, degrees, learning_rate, steps=steps)
    steer = ferero.Steer(task.preference)
    errors = []

    def after_step(step: int, model: nn.Module) -> None:
        angle = 2 * math.pi * step / SWAY_PERIOD
        sway = SWAY * torch.tensor([math.sin(angle), math.cos(angle)], dtype=torch.float64)
        validation = task.evaluate(model) + torch.tensor(SHIFT, dtype=torch.float64) + sway
        if period is not None and step % period == 0:
            steer.observe(**dict(zip(task.preference.names, validation, strict=True)))
        if step > steps - steps // 10:
            errors.append(task.error(validation))

    run = train(task, steer, after_step=after_step)
    part = f"{problem}, {degrees:g} degrees of the validation values, SGD {learning_rate:g}"
    return {
        "part": part,
        "period": period,
        "worst": max(errors),
        "mean": sum(errors) / len(errors),
        "seconds": run.seconds,
    }


def _synthetics(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    rows, runs = [], []
    for problem, rates in RATES.items():
        for period in (50,) if quick else (None, *PERIODS):
            done = []
            for degrees, rate in product(RAYS[:1] if quick else RAYS, rates[1:] if quick else rates):
                done.append(observe_synthetic(problem, degrees, rate, period, 1500 if quick else 3000))
                tick()
            shape = "concave" if problem == "exponential" else "convex"
            rows.append(_row(f"validation values, {problem} ({shape})", period, done))
            runs += done
    return rows, runs
