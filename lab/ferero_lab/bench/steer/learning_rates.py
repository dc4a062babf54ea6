"""Preferences over a range of learning rates: rays on synthetic fronts and of digit pairs, constraints on three losses.

Runs on a synthetic front go side by side through `FereroPI.update` with a stack of preferences, which is what one
`ferero.Steer` each would do (a test compares them). Rays of digit pairs are compared with the best fixed weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

import ferero
from ferero_lab.bench.measure import Row
from ferero_lab.bench.steer.steer_task import (
    DIMENSIONS,
    OptimizerName,
    ProblemName,
    SteerRun,
    SteerTask,
    gradient_noise,
    make_problem,
    pairs,
    ray_at,
    starts,
    three,
    train,
    train_fixed,
)
from ferero_lab.fixed_weights import closest, enclosing, search_fixed_weights

__all__ = [
    "FixedWeights",
    "RaySetting",
    "bench_digit_constraints",
    "bench_digit_rays",
    "bench_fronts",
    "find_oracles",
    "steer_many",
]

FRONT_RATES: dict[ProblemName, tuple[float, ...]] = {
    "exponential": (0.01, 0.03, 0.1, 0.3),
    "quadratic": (0.003, 0.01, 0.03, 0.09),
}
SHAPES: dict[ProblemName, str] = {"exponential": "concave", "quadratic": "convex"}
NOISE = 0.3
PAIRS = "digit pairs"
RAYS = (22.5, 45.0, 67.5)
PAIR_RATES: tuple[tuple[OptimizerName, float], ...] = (
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
GRID = 11
"""Fixed weights that are tried first, from 0.02 to 0.98."""
PLACES = (-0.5, -0.15, 0.15, 0.5)
"""Where between the two weights that enclose a ray the next ones are tried, around where it is expected."""
THREE = "three losses, parity <= 0.46, digit - magnitude == 0.15"
THREE_RATES: tuple[tuple[OptimizerName, float], ...] = (("sgd", 0.03), ("sgd", 0.1), ("adam", 1e-3), ("adam", 5e-3))


# rays on synthetic fronts ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RaySetting:
    """One run on a synthetic front: the arguments of `synthetic` and `train`."""

    degrees: float
    learning_rate: float
    noise: float = 0.0
    seed: int = 0


def bench_fronts(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """All rows, and every run."""
    angles = torch.linspace(9, 81, 4 if quick else 10, dtype=torch.float64).tolist()
    steps, seeds = (1500, (0,)) if quick else (3000, (0, 1, 2))
    rows, runs = [], []
    for problem, every_rate in FRONT_RATES.items():
        rates = every_rate[1::2] if quick else every_rate
        settings = [RaySetting(*one) for one in product(angles, rates, (0.0, NOISE), seeds)]
        tail = steer_many(problem, settings, steps, tick)
        rays = torch.stack([ray_at(setting.degrees) for setting in settings])
        worst = ferero.ray_error(tail, rays[:, None]).amax(dim=1)
        mean = ferero.ray_error(tail.mean(dim=1), rays)
        rows += _front_rows(problem, settings, worst, mean)
        runs += [
            {"part": problem, **vars(setting), "worst": float(w), "mean": float(a), "losses": last.tolist()}
            for setting, w, a, last in zip(settings, worst, mean, tail[:, -1], strict=True)
        ]
    return rows, runs


def steer_many(
    problem: ProblemName, settings: list[RaySetting], steps: int, tick: Callable[[], None] = lambda: None
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


def _front_rows(problem: ProblemName, settings: list[RaySetting], worst: Tensor, mean: Tensor) -> list[Row]:
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


def _where(values: Tensor, noisy: Tensor, settings: list[RaySetting]) -> str:
    """The median over all runs, and which was the worst."""
    place = int(torch.where(noisy, values, 0.0).nan_to_num(nan=torch.inf).argmax())
    one = settings[place]
    return f"median {float(values[noisy].median()):.2g}; the worst at {one.degrees:g}, SGD {one.learning_rate:g}"


# rays of digit pairs -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _SteeredPair:
    """A steered run, and the fixed weights that come closest to its ray (the oracle)."""

    optimizer: OptimizerName
    rate: float
    degrees: float
    run: SteerRun
    oracle: FixedWeights

    @property
    def ratio(self) -> float:
        """Mean level along the ray over the oracle's."""
        return _level(self.run.tail, self.degrees) / _level(self.oracle.tail, self.degrees)

    @property
    def off(self) -> float:
        """Degrees between the ray and the oracle's mean losses."""
        return abs(self.oracle.angle - self.degrees)

    @property
    def jitter(self) -> float:
        """The oracle's own largest distance from the ray in the tail."""
        return float((_angle(self.oracle.tail) - self.degrees).abs().max())

    @property
    def where(self) -> str:
        return f"{self.degrees:g} degrees, {self.optimizer} {self.rate:g}"

    def to_json(self) -> dict[str, Any]:
        return {
            "part": PAIRS,
            "optimizer": self.optimizer,
            "learning_rate": self.rate,
            "degrees": self.degrees,
            "worst": self.run.worst,
            "mean": self.run.mean,
            "losses": self.run.losses.tolist(),
            "seconds": self.run.seconds,
            "level_over_oracle": self.ratio,
            "oracle_weight": self.oracle.weight,
            "oracle_off": self.off,
            "oracle_jitter": self.jitter,
        }


def bench_digit_rays(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """All rows, and every run."""
    train_all = partial(_train_all, RAYS[:1] if quick else RAYS, 1500 if quick else 5000, 2 if quick else 3, tick)
    inside = train_all(PAIR_RATES[2::3] if quick else PAIR_RATES)
    beyond = train_all(() if quick else BEYOND)
    rows = [*_angles(inside), _levels(inside), *(row for pair in BEYOND for row in _beyond(pair, beyond))]
    return rows, [one.to_json() for one in (*inside, *beyond)]


def _train_all(
    rays: tuple[float, ...],
    steps: int,
    rounds: int,
    tick: Callable[[], None],
    rates: tuple[tuple[OptimizerName, float], ...],
) -> list[_SteeredPair]:
    done = []
    for optimizer, rate in rates:
        oracles = find_oracles(pairs(optimizer, rate, rays[0], steps), rays, rounds=rounds)
        tick()
        for degrees, oracle in zip(rays, oracles, strict=True):
            task = pairs(optimizer, rate, degrees, steps)
            done.append(_SteeredPair(optimizer, rate, degrees, train(task, ferero.Steer(task.preference)), oracle))
            tick()
    return done


def _angles(done: list[_SteeredPair]) -> list[Row]:
    rows = []
    for name in ("sgd", "adam"):
        some = [one for one in done if one.optimizer == name]
        worst = max(some, key=lambda one: one.run.worst)
        rates = sorted({one.rate for one in some})
        note = f"{rates[0]:g} to {rates[-1]:g}, {len(some)} runs; the worst at {worst.where}"
        rows.append(Row(PAIRS, f"worst error in degrees, {_title(name)}", worst.run.worst, 2.0, note=note))
    diverged = sum(one.run.jump is not None for one in done)
    rows.append(Row(PAIRS, "runs that diverge", float(diverged), 0.0, note=f"of {len(done)}"))
    return rows


def _levels(done: list[_SteeredPair]) -> Row:
    worst = max(done, key=lambda one: one.ratio)
    far = [one for one in done if one.off > CLOSE]
    median = float(torch.tensor([one.ratio for one in done]).median())
    note = f"median {median:.3f}; the worst at {worst.where}"
    if far:
        offs = ", ".join(f"{one.where} by {one.off:.2g}" for one in far)
        note += f"; no fixed weights come within {CLOSE:g} degrees of {offs}"
    return Row(PAIRS, "level along the ray over oracle", worst.ratio, 1.05, note=note)


def _beyond(which: tuple[OptimizerName, float], done: list[_SteeredPair]) -> list[Row]:
    some = [one for one in done if (one.optimizer, one.rate) == which]
    if not some:
        return []
    title = f"{_title(which[0])} {which[1]:g}"
    ratio = max(one.ratio for one in some)
    return [
        Row(PAIRS, f"beyond: worst error, {title}", max(one.run.worst for one in some), note=f"level {ratio:.3f}"),
        Row(PAIRS, f"beyond: jitter of fixed weights, {title}", max(one.jitter for one in some)),
    ]


def _title(optimizer: str) -> str:
    return {"sgd": "SGD", "adam": "Adam"}[optimizer]


def _level(tail: Tensor, degrees: float) -> float:
    return float((tail @ ray_at(degrees)).mean())


# fixed weights for each ray of digit pairs ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FixedWeights:
    """A training with fixed weights.

    Attributes:
        weight: w of (w, 1 - w).
        tail: whole-set losses over the last tenth of the steps, (evaluations, 2).
    """

    weight: float
    tail: Tensor

    @property
    def angle(self) -> float:
        """Degrees of the tail's mean to the first axis."""
        return float(_angle(self.tail.mean(dim=0)))


def find_oracles(task: SteerTask, degrees: Sequence[float], seed: int = 0, rounds: int = 3) -> list[FixedWeights]:
    """The fixed weights that come closest to each ray: a grid, then finer ones between the two that enclose a ray.

    Args:
        task: a training of two losses; the weights replace its own ray.
        degrees: the rays.
        seed: as for `train`.
        rounds: how often weights are tried, the grid included.
    """

    def train_all(weights: list[float]) -> list[FixedWeights]:
        both = torch.tensor([[w, 1 - w] for w in weights], dtype=torch.float64)
        return [FixedWeights(w, tail) for w, tail in zip(weights, train_fixed(task, both, seed), strict=True)]

    def propose(tried: list[FixedWeights]) -> list[float]:
        return sorted({w for ray in degrees for w in _between(tried, ray)} - {one.weight for one in tried})

    grid = torch.linspace(0.02, 0.98, GRID, dtype=torch.float64).tolist()
    tried = search_fixed_weights(grid, train_all, propose, rounds)
    return [closest(tried, ray) for ray in degrees]


def _between(tried: list[FixedWeights], ray: float) -> list[float]:
    """New weights between the neighbours that enclose the ray, denser where it is expected; or beside the closest."""
    place = enclosing(tried, ray)
    if place is None:
        best = tried.index(closest(tried, ray))
        low, high = tried[max(best - 1, 0)].weight, tried[min(best + 1, len(tried) - 1)].weight
        return torch.linspace(low, high, len(PLACES) + 2, dtype=torch.float64)[1:-1].tolist()
    low, high, share = place
    return [low + (share + (1 - share if d > 0 else share) * d) * (high - low) for d in PLACES]


def _angle(losses: Tensor) -> Tensor:
    """Degrees of losses (..., 2) to the first axis."""
    return torch.rad2deg(torch.atan2(losses[..., 1], losses[..., 0]))


# constraints on three losses ---------------------------------------------------------------------------


def bench_digit_constraints(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """A row for each optimizer and rate, and every run."""
    rows, runs = [], []
    for optimizer, rate in THREE_RATES[1::2] if quick else THREE_RATES:
        task = three(optimizer, rate, 2000 if quick else 6000)
        run = train(task, ferero.Steer(task.preference))
        tick()
        digit, parity, magnitude = run.losses.tolist()
        title = f"{'SGD' if optimizer == 'sgd' else 'Adam'} {rate:g}"
        note = f"of the mean {run.mean:.2g}; parity {parity:.3f}, digit - magnitude {digit - magnitude:.3f} at the end"
        rows.append(Row(THREE, f"largest violation, {title}", run.worst, 0.01, note=note))
        runs.append(
            {
                "part": THREE,
                "optimizer": optimizer,
                "learning_rate": rate,
                "worst": run.worst,
                "mean": run.mean,
                "losses": run.losses.tolist(),
                "seconds": run.seconds,
            }
        )
    return rows, runs
