"""How fast the averaged merit of the single loop falls: like 1/T with exact gradients, like T^(-1/2) with noisy ones.

The merit is that of the paper's theorems, ``|gradF w|^2 + |H|^2`` with the true gradients, averaged over the first T
steps. The problem is a convex one, ``f_i = |theta - c_i|^2 / 2``, and the equality is a ray through its front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ferero.methods import FereroSA, Observation
from ferero.preference import Preference
from ferero_lab.bench.comparison.replay import GROUP, bench_replay
from ferero_lab.bench.measure import Row

__all__ = ["HORIZONS", "bench_rates", "deterministic_merits", "fitted_slope", "stochastic_merits"]

HORIZONS = (100, 316, 1000, 3162, 10000)
LOSSES, PARAMETERS, RUNS = 3, 5, 16
NOISE = 0.2  # of every coordinate of a half-batch's centres, whose spread is 1


def bench_rates(quick: bool, tick: Callable[[], None]) -> list[Row]:
    """The replays by hand, and the fitted exponents of both algorithms."""
    horizons = HORIZONS[: 4 if quick else None]
    rows = bench_replay(tick)
    exact, noisy = deterministic_merits(horizons), stochastic_merits(horizons, tick)
    note = f"averaged merit {exact[0]:.2g} at T = {horizons[0]}, {exact[-1]:.2g} at {horizons[-1]}"
    rows.append(Row(GROUP, "Algorithm 2: exponent of T", fitted_slope(horizons, exact), -0.9, note=note))
    note = f"averaged merit {noisy[0]:.2g} at T = {horizons[0]}, {noisy[-1]:.2g} at {horizons[-1]}"
    rows.append(Row(GROUP, "Algorithm 3: exponent of T", fitted_slope(horizons, noisy), -0.4, note=note))
    return rows


def fitted_slope(horizons: Sequence[int], merits: Sequence[float]) -> float:
    """The slope of the straight line through (log T, log merit)."""
    return float(np.polyfit(np.log(horizons), np.log(merits), 1)[0])


def deterministic_merits(
    horizons: Sequence[int] = HORIZONS, alpha: float = 0.1, gamma: float = 0.1, seed: int = 0
) -> list[float]:
    """Algorithm 2 with constant steps: the averaged merit after each T of one run."""
    merits = _run(max(horizons), alpha, gamma, 0.0, seed).cumsum(dim=0)
    return [float(merits[T - 1] / T) for T in horizons]


def stochastic_merits(
    horizons: Sequence[int] = HORIZONS,
    tick: Callable[[], None] = lambda: None,
    alpha: float = 1.0,
    gamma: float = 1.0,
    seed: int = 0,
) -> list[float]:
    """Algorithm 3 with both steps proportional to T^(-1/2): the averaged merit of one run for each T."""
    merits = []
    for T in horizons:
        merits.append(float(_run(T, alpha * T**-0.5, gamma * T**-0.5, NOISE, seed).mean()))
        tick()
    return merits


def _run(steps: int, alpha: float, gamma: float, noise: float, seed: int) -> Tensor:
    """The merit before each step, (steps,), as its mean over runs from random starts with random half-batches."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    centres = normal(LOSSES, PARAMETERS) / PARAMETERS**0.5
    preference = _ray_through_the_front(centres)
    method = FereroSA(gamma=gamma, domain="simplex")
    theta, state, slopes = normal(RUNS, PARAMETERS) / PARAMETERS**0.5, method.init(preference), None
    merits = torch.empty(steps, dtype=torch.float64)
    constant = 0.5 * noise**2 * PARAMETERS  # what noise adds to the mean of a loss
    for t in range(steps):
        away = theta[:, None] - centres  # gradF^T, (RUNS, m, n)
        first, second = away, away
        if noise:
            both = noise * normal(2, RUNS, LOSSES, PARAMETERS)
            first, second = away - both[0], away - both[1]
        losses = 0.5 * first.square().sum(dim=-1) - constant
        decision, state = method.update(preference, Observation(losses, slopes=slopes), state)
        w = decision.weights[..., None]
        H = 0.5 * away.square().sum(dim=-1) @ preference.B_h.mT + preference.b_h
        merits[t] = ((away.mT @ w).square().sum(dim=(-2, -1)) + H.square().sum(dim=-1)).mean()
        d = -(first.mT @ w)
        slopes = (second @ d)[..., 0]
        theta = theta + alpha * d[..., 0]
    return merits


def _ray_through_the_front(centres: Tensor) -> Preference:
    """The ray to the image of a point well inside the centres' hull, where the front is."""
    shares = torch.arange(1.0, len(centres) + 1, dtype=centres.dtype)
    point = shares / shares.sum() @ centres
    return Preference.ray(0.5 * (point - centres).square().sum(dim=-1))
