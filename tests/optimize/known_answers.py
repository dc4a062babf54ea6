"""Convex problems whose answer is known, since they are built around it.

Choose x*, weights w, multipliers nu of ``A x = b`` and mu of the bounds. Quadratics
``F_i = (x - x*).H_i (x - x*) / 2 + g_i.(x - x*) + k_i`` with ``w_1 g_1 + w_2 g_2 + A^T nu + mu = 0`` have x* as the
solution of ``min F_1`` subject to ``F_2 <= F_2(x*)`` and to the constraints, and as the point on the ray F(x*).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint

from ferero.optimize import Result
from ferero.preference import Preference, objectives

F = objectives("a", "b")
FAMILIES = ("plain", "scaled", "offset", "degenerate", "boxed", "constrained", "all", "impossible")
CLOSE = 1e-3  # of what the first loss had to fall by


@dataclass(frozen=True, eq=False)
class KnownAnswer:
    """A problem, its options for `minimize`, and the losses of its answer; None where there is none."""

    family: str
    fun: Callable[[np.ndarray], np.ndarray]
    jac: Callable[[np.ndarray], np.ndarray]
    x0: np.ndarray
    preference: Preference
    answer: np.ndarray | None
    options: dict[str, Any] = field(default_factory=dict)

    def fault(self, result: Result) -> str:
        """What is wrong with the result's verdict; empty if nothing is."""
        if self.answer is None:
            return "" if result.status != "converged" else "converged where there is no answer"
        if result.status == "unattainable":
            return "unattainable, but there is an answer"
        if result.status != "converged":
            return ""
        first = self.fun(self.x0)
        varies = np.abs(first - self.answer).max()
        off = np.asarray(result.losses) - self.answer
        if self.preference.ray is None and self.preference.at_most is None:
            return "" if off[0] <= CLOSE * varies and off[1] <= CLOSE * varies else f"converged, off by {off / varies}"
        if self.preference.ray is not None and "without them every loss could fall further" in result.message:
            return ""  # an equality may be met in several points, and the message says that this is not the lowest
        return "" if np.abs(off).max() <= CLOSE * varies else f"converged, off by {off / varies}"


def known_answer(seed: int) -> KnownAnswer:
    """The problem of that number; families take turns."""
    family, rng = FAMILIES[seed % len(FAMILIES)], np.random.default_rng(seed)
    n, everything = int(rng.integers(2, 9)), FAMILIES[seed % len(FAMILIES)] == "all"
    units = 10.0 ** rng.uniform(-2, 2, n) if family == "scaled" or everything else np.ones(n)
    target, w, options = rng.normal(size=n), rng.uniform(0.3, 3.0, 2), {}
    balance = np.zeros(n)
    if family == "boxed" or everything:
        side = rng.integers(-1, 2, n)  # at the lower bound, between, at the upper
        mu = side * rng.exponential(size=n)
        low = np.where(side < 0, target, target - rng.exponential(size=n) - 0.1)
        high = np.where(side > 0, target, target + rng.exponential(size=n) + 0.1)
        balance, options["bounds"] = balance + mu, list(zip(low * units, high * units, strict=True))
    if family == "constrained" or everything:
        A = rng.normal(size=(1, n))
        at = A @ target
        balance = balance + rng.normal() * A[0]
        rows = np.concatenate([A, A]) if rng.uniform() < 0.3 else A  # a row twice
        options["constraints"] = LinearConstraint(rows / units, np.repeat(at, len(rows)), np.repeat(at, len(rows)))
    slope = rng.normal(size=n)
    slopes = np.stack([slope, -(w[0] * slope + balance) / w[1]])
    ranks = [max(1, n - 2) if family == "degenerate" else n, n]
    roots = [rng.normal(size=(rank, n)) for rank in ranks]
    hessians = np.stack([R.T @ R / len(R) + (0.05 if len(R) == n else 0.0) * np.eye(n) for R in roots])
    floor = np.array([1e8, 1e8]) if family == "offset" else np.zeros(2)
    lowest = [float(s @ np.linalg.lstsq(H, s, rcond=None)[0]) for H, s in zip(hessians, slopes, strict=True)]
    heights = np.array(lowest) + rng.uniform(0.5, 3.0, 2) + floor

    def fun(x: np.ndarray) -> np.ndarray:
        d = x / units - target
        return 0.5 * (hessians @ d) @ d + slopes @ d + heights

    def jac(x: np.ndarray) -> np.ndarray:
        return (hessians @ (x / units - target) + slopes) / units

    x0 = (target + rng.normal(size=n)) * units
    kind = rng.integers(3)
    preference = Preference(F, [F.b <= float(heights[1])], minimize=F.a)
    if family == "impossible":
        least = heights[1] - 0.5 * lowest[1]
        asked = float(least - rng.uniform(0.05, 0.4) * 0.5 * max(lowest[1], 0.1))
        return KnownAnswer(family, fun, jac, x0, Preference(F, [F.b <= asked], minimize=F.a), None)
    if kind and family not in ("offset", "degenerate"):
        preference = Preference.ray(heights, at_most=bool(kind == 2), names=F)
    return KnownAnswer(family, fun, jac, x0, preference, heights, options)
