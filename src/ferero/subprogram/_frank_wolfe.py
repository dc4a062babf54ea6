"""Frank and Wolfe's method on the dual, with pairwise steps between the corners of the domain."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ferero.errors import UnsupportedError
from ferero.subprogram._program import TINY, Programs

__all__ = ["frank_wolfe"]

ITERATIONS = 3000


def frank_wolfe(programs: Programs, *, tol: float | None = None, max_iter: int = ITERATIONS) -> Tensor:
    """Pairwise Frank-Wolfe steps with exact line search.

    The domain is a product of a simplex with corners ``b / a_i`` and of segments, one for each constraint. A
    step moves weight from one corner of a factor to another. Of all pairs the one is taken whose line search
    gains most, which is at least the gain of the classical pair, so convergence is linear.

    Args:
        programs: P programs.
        tol: Largest decrease, relative to the terms of the objective, at which to stop, checked after each
            step; None never checks (and never syncs with the host).
        max_iter: Number of steps.

    Returns:
        Multipliers (P, k), in their domain.

    Raises:
        UnsupportedError: There are constraints but no finite bound, or a row of the order has a = 0, since
            the domain then has no corners to go to.
    """
    _check_compact(programs)
    k, k_f = programs.linear.shape[-1], programs.simplex.shape[-1]
    unit = torch.where(programs.lengths > 0, 1.0 / programs.lengths, 1.0)
    unit[:, :k_f] = torch.where(programs.simplex > 0, programs.total[:, None] / programs.simplex, 0.0)
    lower, upper = programs.lower[:, k_f:] / unit[:, k_f:], programs.upper[:, k_f:] / unit[:, k_f:]
    x = torch.where(unit > 0, programs.uniform / unit, 0.0)
    directions, source = _pairs(k_f, k, x)
    change = unit[:, :, None] * (programs.quadratic @ (unit[:, :, None] * directions))
    curvature = (directions * change).sum(dim=-2).clamp(min=0.0)
    gradient = unit * ((programs.quadratic @ (unit * x)[..., None])[..., 0] - programs.linear)
    least, most = torch.zeros_like(curvature), torch.zeros_like(curvature)
    for _ in range(max_iter):
        least[:, k_f * k_f :], most[:, k_f * k_f :] = lower - x[:, k_f:], upper - x[:, k_f:]
        most[:, : k_f * k_f] = x[:, source]
        slope = gradient @ directions
        step = (-slope / curvature).nan_to_num(nan=0.0).clamp(least, most)
        gain = -step * (slope + 0.5 * curvature * step)
        best = gain.argmax(dim=-1, keepdim=True)
        step = step.gather(-1, best)
        x = x + step * directions.T[best[:, 0]]
        gradient = gradient + step * change.gather(-1, best[:, None].expand(-1, k, 1))[..., 0]
        size = (x * gradient).abs().sum(dim=-1, keepdim=True).clamp(min=TINY)
        if tol is not None and bool((gain.gather(-1, best) <= tol * size).all()):
            break
    return programs.feasible(x * unit)


def _pairs(k_f: int, k: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Directions (k, k_f^2 + k - k_f), from corner i to j, then along segments; and the i, (k_f^2,)."""
    identity = torch.eye(k, dtype=like.dtype, device=like.device)
    corner = torch.arange(k_f, device=like.device)
    i, j = corner.repeat_interleave(k_f), corner.repeat(k_f)
    return torch.cat([identity[:, j] - identity[:, i], identity[:, k_f:]], dim=-1), i


def _check_compact(programs: Programs) -> None:
    k_f = programs.simplex.shape[-1]
    bound = programs.bound
    finite = bool(bound.isfinite().all()) if isinstance(bound, Tensor) else math.isfinite(bound)
    if programs.linear.shape[-1] > k_f and not finite:
        raise UnsupportedError(
            'bound: solver="frank-wolfe" walks between the corners of a bounded domain, found no finite one; '
            'pass bound=..., or use solver="exact".'
        )
    if bool(((programs.simplex == 0) & (programs.lengths[:, :k_f] > 0)).any()):
        raise UnsupportedError(
            'losses: solver="frank-wolfe" needs A F > 0 in the adaptive domain, found an entry of 0, whose '
            'multiplier is unbounded; use domain="simplex" or solver="exact".'
        )
