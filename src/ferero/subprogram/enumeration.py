"""Tiny programs by enumeration: every candidate for the set of free multipliers is solved at once.

The equations of a set are linear, so one batched solve answers all of them, and the certificate chooses. For
two rows of the order and nothing else the answer can be written down.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import torch
from torch import Tensor

from ferero.subprogram.programs import Programs, Scaled

__all__ = ["candidates", "enumerate_sets", "on_segment", "solve_free"]

RIDGE = 2.0**-44  # keeps the equations solvable where free rows are dependent; refined away afterwards
REFINEMENTS = 2
STATES = {"zero": 0, "free": 1, "upper": 2, "lower": 3}


def candidates(order: int, inequalities: int, equalities: int, bounded: bool) -> int:
    """How many sets :func:`enumerate_sets` would try."""
    return (2**order - 1) * (3 if bounded else 2) ** inequalities * (3 if bounded else 1) ** equalities


@lru_cache(maxsize=32)
def _states(order: int, inequalities: int, equalities: int, bounded: bool) -> Tensor:
    """The states (C, k) of all sets: at least one row of the order is free."""
    zero, free, upper, lower = STATES.values()
    f = [states for states in itertools.product((zero, free), repeat=order) if any(states)]
    g = itertools.product((zero, free, upper) if bounded else (zero, free), repeat=inequalities)
    h = itertools.product((free, upper, lower) if bounded else (free,), repeat=equalities)
    return torch.tensor([[*i, *j, *l] for i, j, l in itertools.product(f, list(g), list(h))])


def enumerate_sets(programs: Programs) -> tuple[Tensor, Tensor]:
    """The best of all candidate sets: multipliers (P, k) and residual (P,)."""
    k, k_f, k_h = programs.linear.shape[-1], programs.simplex.shape[-1], programs.equalities
    bounded = isinstance(programs.bound, Tensor) or math.isfinite(programs.bound)
    states = _states(k_f, k - k_f - k_h, k_h, bounded).to(programs.linear.device)[:, None]
    scaled = programs.scaled()
    fixed = torch.where(states == STATES["upper"], scaled.upper, 0.0)
    fixed = torch.where(states == STATES["lower"], scaled.lower, fixed)
    mu = solve_free(scaled, states == STATES["free"], fixed)
    lam = programs.feasible(mu * scaled.unit)
    residual = programs.residual(lam).nan_to_num(nan=torch.inf)
    best = residual.argmin(dim=0, keepdim=True)
    lam = lam.gather(0, best[..., None].expand(1, *lam.shape[1:]))[0]
    return lam.nan_to_num(), residual.gather(0, best)[0]


def solve_free(scaled: Scaled, is_free: Tensor, fixed: Tensor) -> Tensor:
    """Stationary multipliers with the rows that are not free held at their values.

    Args:
        scaled: P programs.
        is_free: (..., P, k).
        fixed: (..., P, k), what the others are held at.

    Returns:
        (..., P, k), not finite where there is no answer.
    """
    is_free = is_free & ~scaled.is_idle
    held = torch.where(is_free | scaled.is_idle, 0.0, fixed)
    free = is_free.to(held)
    k = free.shape[-1]
    system = held.new_zeros(*free.shape[:-1], k + 1, k + 1)
    system[..., :k, :k] = scaled.quadratic * free[..., :, None] * free[..., None, :] + (1.0 - free).diag_embed()
    system[..., :k, k] = system[..., k, :k] = scaled.a * free
    pull = free * (scaled.linear - (scaled.quadratic @ held[..., None])[..., 0])
    missing = 1.0 - (scaled.a * held).sum(dim=-1, keepdim=True)
    right = torch.cat([pull + held, missing], dim=-1)[..., None]
    ridge = torch.nn.functional.pad(RIDGE * free, (0, 1)).diag_embed()
    factors, pivots, _ = torch.linalg.lu_factor_ex(system + ridge)
    x = torch.linalg.lu_solve(factors, pivots, right)
    for _ in range(REFINEMENTS):
        x = x + torch.linalg.lu_solve(factors, pivots, right - system @ x)
    return x[..., :k, 0]


def on_segment(programs: Programs) -> Tensor:
    """Two rows of the order, no constraints: a parabola's lowest point between two corners, (P, 2).

    A row whose ``a`` is zero has no corner; the other one's is then fixed and its own multiplier is
    ``[q_i - Q_ij lam_j]_+ / Q_ii``.
    """
    Q, q, a = programs.quadratic, programs.linear, programs.a
    ends = 1.0 / a
    corners = Q * ends[:, :, None] * ends[:, None, :]
    (p, r), (_, s) = corners.unbind(-2)[0].unbind(-1), corners.unbind(-2)[1].unbind(-1)
    t, u = (q * ends).unbind(-1)
    curvature = p - 2.0 * r + s
    slope = s - r + t - u
    share = torch.where(curvature > 0, slope / curvature, 0.5 + 0.5 * slope.sign()).clamp(0.0, 1.0)
    lam = ends * torch.stack([share, 1.0 - share], dim=-1)
    other = ends.flip(-1)
    alone = ((q - Q[:, 0, 1, None] * other).clamp(min=0.0) / Q.diagonal(dim1=-2, dim2=-1)).nan_to_num(0.0, 0.0)
    lam = torch.where(a > 0, torch.where(a.flip(-1) > 0, lam, ends), alone)
    return lam
