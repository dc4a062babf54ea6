"""The optimality conditions of a subprogram in long double, sharing no code with the library's own residual."""

from __future__ import annotations

import numpy as np

from ferero.subprogram import Solution
from ferero_lab.problems.subprograms import SubprogramInstance

__all__ = ["long_residual"]


def long_residual(instance: SubprogramInstance, solution: Solution, bound: float = np.inf) -> float:
    """The worst relative violation of primal feasibility, complementary slackness and the multipliers' domain.

    A slack counts against ``|S_i gradF| D + |q_i|`` with ``D = sum |lam_i| |S_i gradF|``; slack times the room its
    multiplier has left against ``D^2 + |q|.|lam|``; of the two the smaller.

    Args:
        instance: the subprogram.
        solution: anybody's answer to it.
        bound: rho of the elastic form.
    """
    long = np.longdouble
    p = instance.preference
    A, B_g, B_h = (matrix.numpy().astype(long) for matrix in (p.A, p.B_g, p.B_h))
    F, K = instance.losses.astype(long), instance.gramian.astype(long)
    lam = solution.multipliers.numpy().astype(long)
    G, H = instance.c_g * (B_g @ F + p.b_g.numpy()), instance.c_h * (B_h @ F + p.b_h.numpy())
    S, q = np.concatenate([A, B_g, B_h]), np.concatenate([np.zeros(len(A), long), G, H])
    a = np.zeros(len(S), long)
    a[: len(A)] = A @ F / (A @ F).sum() if instance.domain == "adaptive" else 1.0
    lengths = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", S, K, S), 0))
    fall = S @ (K @ (S.T @ lam))
    c = lam[: len(A)] @ (q - fall)[: len(A)]
    slack = q - fall - c * a
    longest = max((length / entry for length, entry in zip(lengths, a, strict=True) if entry > 0), default=long(0))
    uncancelled = max(np.abs(lam) @ lengths, len(S) * np.finfo(float).eps * longest)
    scale = lengths * uncancelled + np.abs(q)
    terms = uncancelled**2 + np.abs(q) @ np.abs(lam)
    size = np.abs(lam).max()
    worst = abs(a @ lam - 1)
    for i in range(len(S)):
        low, high = (0, np.inf) if i < len(A) else (0, bound) if i < len(S) - len(B_h) else (-bound, bound)
        outside = max(low - lam[i], lam[i] - high, 0) / size
        room = high - lam[i] if slack[i] > 0 else lam[i] - low
        by_row = abs(slack[i]) / scale[i] if scale[i] > 0 else abs(slack[i])
        by_gap = abs(slack[i]) * min(room, 1e100) / terms if terms > 0 else long(0)
        worst = max(worst, outside, np.minimum(by_row, by_gap))
    return float(worst)
