"""`FereroSA` against the paper: Algorithms 2 and 3 replayed by hand, and how fast the averaged merit falls.

The replay is numpy alone and uses no formula of the library: its projection is a bisection followed by one exact solve
on the coordinates that it leaves positive. The merit is that of the paper's theorems, ``|gradF w|^2 + |H|^2`` with the
true gradients, averaged over the first T steps; it falls like 1/T with exact gradients and like T^(-1/2) with noisy
ones. The problem is a convex one, ``f_i = |theta - c_i|^2 / 2``, and the equality is a ray through its front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ferero.methods import FereroSA, Observation
from ferero.preference import Preference
from ferero.subprogram import Array, Domain
from ferero_lab.bench.measure import Row

__all__ = [
    "CASES",
    "HORIZONS",
    "ReplayCase",
    "bench_ferero_sa",
    "deterministic_merits",
    "deviation",
    "fitted_slope",
    "project_by_bisection",
    "replay",
    "stochastic_merits",
]

GROUP = "Algorithms 2 and 3"
STEPS = 5
ALPHA = 0.1
HORIZONS = (100, 316, 1000, 3162, 10000)
LOSSES, PARAMETERS, RUNS = 3, 5, 16
NOISE = 0.2  # of every coordinate of a half-batch's centres, whose spread is 1


@dataclass(frozen=True)
class ReplayCase:
    """One comparison.

    Attributes:
        name: What is compared.
        constraints: Those on three losses, as text.
        domain: Of the order's multipliers.
        is_stochastic: Algorithm 3, with two half-batches a step; else Algorithm 2.
        bound: Of the constraints' multipliers.
    """

    name: str
    constraints: str
    domain: Domain
    is_stochastic: bool = False
    bound: float | None = None


_EQUALITY, _BOTH = "f1 - f2 == 0.25", "f1 <= 0.3; f2 + f3 <= 1.5; f1 - f2 == 0.25; f3 - 0.5 * f1 == 0.1"
CASES = (
    ReplayCase("Algorithm 2, equality, simplex", _EQUALITY, "simplex"),
    ReplayCase("Algorithm 2, equality, adaptive", _EQUALITY, "adaptive"),
    ReplayCase("Algorithm 2, inequalities and equalities, simplex", _BOTH, "simplex"),
    ReplayCase("Algorithm 2, inequalities and equalities, adaptive", _BOTH, "adaptive"),
    ReplayCase("Algorithm 2, inequalities and equalities, bounded", _BOTH, "adaptive", bound=0.05),
    ReplayCase("Algorithm 3, equality, simplex", _EQUALITY, "simplex", is_stochastic=True),
    ReplayCase("Algorithm 3, equality, adaptive", _EQUALITY, "adaptive", is_stochastic=True),
    ReplayCase("Algorithm 3, inequalities and equalities, adaptive", _BOTH, "adaptive", is_stochastic=True),
)


def bench_ferero_sa(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    """The replays by hand, and the fitted exponents of T of both algorithms."""
    horizons = HORIZONS[: 4 if quick else None]
    rows = _replayed(tick)
    exact, noisy = deterministic_merits(horizons), stochastic_merits(horizons, tick)
    note = f"averaged merit {exact[0]:.2g} at T = {horizons[0]}, {exact[-1]:.2g} at {horizons[-1]}"
    rows.append(Row(GROUP, "Algorithm 2: exponent of T", fitted_slope(horizons, exact), -0.9, note=note))
    note = f"averaged merit {noisy[0]:.2g} at T = {horizons[0]}, {noisy[-1]:.2g} at {horizons[-1]}"
    rows.append(Row(GROUP, "Algorithm 3: exponent of T", fitted_slope(horizons, noisy), -0.4, note=note))
    return rows, []


def _replayed(tick: Callable[[], None]) -> list[Row]:
    """One row per case: the largest deviation over five steps and ten seeds."""
    rows = []
    for case in CASES:
        worst = max(deviation(case, seed) for seed in range(10))
        rows.append(Row(GROUP, f"{case.name}: deviation", worst, 1e-12, note="5 steps by hand, 10 seeds"))
        tick()
    return rows


def deviation(case: ReplayCase, seed: int) -> float:
    """The largest difference between the multipliers and weights of `FereroSA` and those found by hand.

    Relative to the largest of them.
    """
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-1, 1, (3, 4))
    batches = rng.normal(0, 0.3, (STEPS, 2, 3, 4)) if case.is_stochastic else np.zeros((STEPS, 2, 3, 4))
    gamma, c_g, c_h = rng.uniform(0.1, 1, 3)
    method = FereroSA(gamma=gamma, c_g=c_g, c_h=c_h, domain=case.domain, bound=case.bound)
    preference = Preference.parse(case.constraints, names=["f1", "f2", "f3"])
    theirs = replay(method, preference, centres, batches)
    theta, state, slopes = np.zeros(4), method.init(preference), None
    worst = 0.0
    for (first, second), expected in zip(batches, theirs, strict=True):
        observation = Observation(_losses(theta, centres + first), slopes=slopes)
        decision, state = method.update(preference, observation, state)
        assert decision.multipliers is not None
        found = np.concatenate([decision.multipliers.numpy(), decision.weights.numpy()])
        worst = max(worst, float(np.abs(found - expected).max() / np.abs(expected).max()))
        d = -_gradients(theta, centres + first) @ decision.weights.numpy()
        slopes = _gradients(theta, centres + second).T @ d
        theta = theta + ALPHA * d
    return worst


def replay(method: FereroSA, preference: Preference, centres: Array, batches: Array) -> list[Array]:
    """The paper's formulas, one line each, with the sign of the model's step as in Algorithms 1 and 2.

    Args:
        method: For its constants only.
        preference: For its matrices only.
        centres: Of the quadratic losses, (m, n).
        batches: What each of two half-batches a step adds to them, (steps, 2, m, n); zero for Algorithm 2.

    Returns:
        ``[lam; w]`` of every step, (k + m,) each.
    """
    p = preference
    A, B_g, b_g, B_h, b_h = (matrix.numpy() for matrix in (p.A, p.B_g, p.b_g, p.B_h, p.b_h))
    A_ag = np.concatenate([A, B_g, B_h])
    k, k_g = len(A), len(B_g)
    rho = np.inf if method.bound is None else method.bound
    lam = np.zeros(len(A_ag))
    lam[:k] = 1.0 if method.domain == "adaptive" else 1.0 / k
    theta, out = np.zeros(centres.shape[1]), []
    for t, (first, second) in enumerate(batches):
        F = _losses(theta, centres + first)
        out.append(np.concatenate([lam, A_ag.T @ lam]))
        J_1, J_2 = _gradients(theta, centres + first), _gradients(theta, centres + second)
        d = -J_1 @ A_ag.T @ lam
        theta = theta + ALPHA * d
        values = np.concatenate([np.zeros(k), method.c_g * (B_g @ F + b_g), method.c_h * (B_h @ F + b_h)])
        lam = lam - method.gamma * (A_ag @ J_2.T @ J_1 @ A_ag.T @ lam - values)
        ahead = _losses(theta, centres + batches[min(t + 1, len(batches) - 1)][0])
        a = A @ ahead if method.domain == "adaptive" else np.ones(k)
        b = a.sum() if method.domain == "adaptive" else 1.0
        lam[:k] = project_by_bisection(lam[:k], a, b)
        lam[k : k + k_g] = np.clip(lam[k : k + k_g], 0.0, rho)
        lam[k + k_g :] = np.clip(lam[k + k_g :], -rho, rho)
    return out


def project_by_bisection(x: Array, a: Array | Sequence[float], b: float) -> Array:
    """The point of ``{z >= 0, a.z = b}`` nearest to x, for positive a."""
    a = np.asarray(a, dtype=np.float64)
    low, high = float(((x - b / a) / a).min()), float((x / a).max())
    for _ in range(200):
        middle = 0.5 * (low + high)
        too_much = a @ np.maximum(x - middle * a, 0.0) > b
        low, high = (middle, high) if too_much else (low, middle)
    free = x - high * a >= 0
    free |= x - low * a > 0
    t = (a[free] @ x[free] - b) / (a[free] @ a[free])
    return np.asarray(np.where(free, np.maximum(x - t * a, 0.0), 0.0))


def _losses(theta: Array, centres: Array) -> Array:
    """``|theta - c_i|^2 / 2``, (m,)."""
    return np.asarray(0.5 * np.square(theta - centres).sum(axis=1))


def _gradients(theta: Array, centres: Array) -> Array:
    """gradF, (n, m)."""
    return np.asarray((theta - centres).T)


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
