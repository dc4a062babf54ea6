"""Algorithms 2 and 3 written out by hand in numpy, beside `FereroSA` on the same numbers.

Nothing of ours is used for the formulas: the projection here is a bisection followed by one exact solve on the
coordinates that it leaves positive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ferero.methods import FereroSA, Observation
from ferero.preference import Preference
from ferero.subprogram import Array, Domain
from ferero_lab.bench.measure import Row

__all__ = ["CASES", "Case", "bench_replay", "deviation", "project_by_bisection", "replay"]

GROUP = "Algorithms 2 and 3"
STEPS = 5
ALPHA = 0.1


@dataclass(frozen=True)
class Case:
    """One comparison.

    Attributes:
        name: What is compared.
        wanted: The constraints on three losses, as text.
        domain: Of the order's multipliers.
        is_stochastic: Algorithm 3, with two half-batches a step; else Algorithm 2.
        bound: Of the constraints' multipliers.
    """

    name: str
    wanted: str
    domain: Domain
    is_stochastic: bool = False
    bound: float | None = None


_EQUALITY, _BOTH = "f1 - f2 == 0.25", "f1 <= 0.3; f2 + f3 <= 1.5; f1 - f2 == 0.25; f3 - 0.5 * f1 == 0.1"
CASES = (
    Case("Algorithm 2, equality, simplex", _EQUALITY, "simplex"),
    Case("Algorithm 2, equality, adaptive", _EQUALITY, "adaptive"),
    Case("Algorithm 2, inequalities and equalities, simplex", _BOTH, "simplex"),
    Case("Algorithm 2, inequalities and equalities, adaptive", _BOTH, "adaptive"),
    Case("Algorithm 2, inequalities and equalities, bounded", _BOTH, "adaptive", bound=0.05),
    Case("Algorithm 3, equality, simplex", _EQUALITY, "simplex", is_stochastic=True),
    Case("Algorithm 3, equality, adaptive", _EQUALITY, "adaptive", is_stochastic=True),
    Case("Algorithm 3, inequalities and equalities, adaptive", _BOTH, "adaptive", is_stochastic=True),
)


def bench_replay(tick: Callable[[], None]) -> list[Row]:
    """One row per case: the largest deviation over five steps and ten seeds."""
    rows = []
    for case in CASES:
        worst = max(deviation(case, seed) for seed in range(10))
        rows.append(Row(GROUP, f"{case.name}: deviation", worst, 1e-12, note="5 steps by hand, 10 seeds"))
        tick()
    return rows


def deviation(case: Case, seed: int) -> float:
    """The largest difference between the multipliers and weights of `FereroSA` and those found by hand.

    Relative to the largest of them.
    """
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-1, 1, (3, 4))
    batches = rng.normal(0, 0.3, (STEPS, 2, 3, 4)) if case.is_stochastic else np.zeros((STEPS, 2, 3, 4))
    gamma, c_g, c_h = rng.uniform(0.1, 1, 3)
    method = FereroSA(gamma=gamma, c_g=c_g, c_h=c_h, domain=case.domain, bound=case.bound)
    preference = Preference.parse(case.wanted, names=["f1", "f2", "f3"])
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
