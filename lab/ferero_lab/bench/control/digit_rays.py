"""Rays of the two losses of digit pairs: how near, and how low along the ray beside the best fixed weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import ferero
from ferero_lab.bench.control.oracle import Oracle, angle_of, find_oracles
from ferero_lab.bench.control.tasks import OptimizerName, Run, pairs, ray_at, train
from ferero_lab.bench.measure import Row

__all__ = ["bench_digit_rays"]

GROUP = "digit pairs"
RAYS = (22.5, 45.0, 67.5)
RATES: tuple[tuple[OptimizerName, float], ...] = (
    ("sgd", 0.01),
    ("sgd", 0.03),
    ("sgd", 0.1),
    ("adam", 5e-4),
    ("adam", 1.5e-3),
    ("adam", 5e-3),
)
BEYOND: tuple[tuple[OptimizerName, float], ...] = (("sgd", 0.3), ("adam", 1e-2))
"""The next larger rates, where the angle of fixed weights jitters by itself."""
CLOSE = 0.5
"""Degrees within which an oracle should be, in the mean over the last tenth."""


@dataclass(frozen=True, eq=False)
class _Pair:
    """A steered run and its oracle."""

    optimizer: OptimizerName
    rate: float
    degrees: float
    run: Run
    oracle: Oracle

    @property
    def ratio(self) -> float:
        """Mean level along the ray over the oracle's."""
        return _level(self.run.tail, self.degrees) / _level(self.oracle.tail, self.degrees)

    @property
    def jitter(self) -> float:
        """The oracle's own largest distance from the ray in the tail."""
        return float((angle_of(self.oracle.tail) - self.degrees).abs().max())

    @property
    def where(self) -> str:
        return f"{self.degrees:g} degrees, {self.optimizer} {self.rate:g}"

    def to_json(self) -> dict[str, Any]:
        return {
            "part": GROUP,
            "optimizer": self.optimizer,
            "learning_rate": self.rate,
            "degrees": self.degrees,
            "worst": self.run.worst,
            "mean": self.run.mean,
            "losses": self.run.losses.tolist(),
            "seconds": self.run.seconds,
            "level_over_oracle": self.ratio,
            "oracle_weight": self.oracle.weight,
            "oracle_off": self.oracle.off,
            "oracle_jitter": self.jitter,
        }


def bench_digit_rays(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """All rows, and every run."""
    train_all = partial(_train_all, RAYS[:1] if quick else RAYS, 1500 if quick else 5000, 2 if quick else 3, tick)
    inside = train_all(RATES[2::3] if quick else RATES)
    beyond = train_all(() if quick else BEYOND)
    rows = [*_angles(inside), _levels(inside), *(row for pair in BEYOND for row in _beyond(pair, beyond))]
    return rows, [one.to_json() for one in (*inside, *beyond)]


def _train_all(
    rays: tuple[float, ...],
    steps: int,
    rounds: int,
    tick: Callable[[], None],
    rates: tuple[tuple[OptimizerName, float], ...],
) -> list[_Pair]:
    done = []
    for optimizer, rate in rates:
        oracles = find_oracles(pairs(optimizer, rate, rays[0], steps), rays, rounds=rounds)
        tick()
        for degrees, oracle in zip(rays, oracles, strict=True):
            task = pairs(optimizer, rate, degrees, steps)
            done.append(_Pair(optimizer, rate, degrees, train(task, ferero.Steer(task.preference)), oracle))
            tick()
    return done


def _angles(done: list[_Pair]) -> list[Row]:
    rows = []
    for name in ("sgd", "adam"):
        some = [one for one in done if one.optimizer == name]
        worst = max(some, key=lambda one: one.run.worst)
        rates = sorted({one.rate for one in some})
        note = f"{rates[0]:g} to {rates[-1]:g}, {len(some)} runs; the worst at {worst.where}"
        rows.append(Row(GROUP, f"worst error in degrees, {_title(name)}", worst.run.worst, 2.0, note=note))
    diverged = sum(one.run.jump is not None for one in done)
    rows.append(Row(GROUP, "runs that diverge", float(diverged), 0.0, note=f"of {len(done)}"))
    return rows


def _levels(done: list[_Pair]) -> Row:
    worst = max(done, key=lambda one: one.ratio)
    far = [one for one in done if one.oracle.off > CLOSE]
    median = float(torch.tensor([one.ratio for one in done]).median())
    note = f"median {median:.3f}; the worst at {worst.where}"
    if far:
        offs = ", ".join(f"{one.where} by {one.oracle.off:.2g}" for one in far)
        note += f"; no fixed weights come within {CLOSE:g} degrees of {offs}"
    return Row(GROUP, "level along the ray over oracle", worst.ratio, 1.05, note=note)


def _beyond(which: tuple[OptimizerName, float], done: list[_Pair]) -> list[Row]:
    some = [one for one in done if (one.optimizer, one.rate) == which]
    if not some:
        return []
    title = f"{_title(which[0])} {which[1]:g}"
    ratio = max(one.ratio for one in some)
    return [
        Row(GROUP, f"beyond: worst error, {title}", max(one.run.worst for one in some), note=f"level {ratio:.3f}"),
        Row(GROUP, f"beyond: jitter of fixed weights, {title}", max(one.jitter for one in some)),
    ]


def _title(optimizer: str) -> str:
    return {"sgd": "SGD", "adam": "Adam"}[optimizer]


def _level(tail: Tensor, degrees: float) -> float:
    return float((tail @ ray_at(degrees)).mean())
