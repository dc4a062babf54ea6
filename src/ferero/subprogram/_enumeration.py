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

from ferero.subprogram._program import EPSILON
from ferero.subprogram._program_batch import TINY, Programs

__all__ = ["candidates", "enumerate_sets", "on_segment", "solve_free"]

RIDGE = 2.0**-44  # keeps the equations solvable where free rows are dependent; refined away afterwards
REFINEMENTS = 2
STATES = {"zero": 0, "free": 1, "upper": 2, "lower": 3}


def candidates(order: int, inequalities: int, equalities: int, bounded: bool) -> int:
    """How many sets :func:`enumerate_sets` would try."""
    return int((2**order - 1) * (3 if bounded else 2) ** inequalities * (3 if bounded else 1) ** equalities)


@lru_cache(maxsize=32)
def _states(order: int, inequalities: int, equalities: int, bounded: bool, device: torch.device) -> Tensor:
    """The states (C, k) of all sets: at least one row of the order is free. Kept, since a copy to a GPU waits."""
    zero, free, upper, lower = STATES.values()
    f = [states for states in itertools.product((zero, free), repeat=order) if any(states)]
    g = itertools.product((zero, free, upper) if bounded else (zero, free), repeat=inequalities)
    h = itertools.product((free, upper, lower) if bounded else (free,), repeat=equalities)
    return torch.tensor([list(itertools.chain(*parts)) for parts in itertools.product(f, g, h)], device=device)


def enumerate_sets(programs: Programs) -> tuple[Tensor, Tensor]:
    """The best of all candidate sets: multipliers (P, k) and residual (P,)."""
    k, k_f, k_h = programs.linear.shape[-1], programs.simplex.shape[-1], programs.equalities
    bounded = isinstance(programs.bound, Tensor) or math.isfinite(programs.bound)
    states = _states(k_f, k - k_f - k_h, k_h, bounded, programs.linear.device)[:, None]
    fixed = torch.where(states == STATES["upper"], programs.upper, 0.0)
    fixed = torch.where(states == STATES["lower"], programs.lower, fixed)
    lam = programs.feasible(solve_free(programs, states == STATES["free"], fixed))
    residual = programs.residual(lam).nan_to_num(nan=torch.inf)
    best = residual.argmin(dim=0, keepdim=True)
    lam = lam.gather(0, best[..., None].expand(1, *lam.shape[1:]))[0]
    return lam.nan_to_num(), residual.gather(0, best)[0]


def solve_free(programs: Programs, is_free: Tensor, fixed: Tensor) -> Tensor:
    """Stationary multipliers with the rows that are not free held at their values.

    Every row is scaled to unit length. Rows may be dependent, so a small ridge is added and refined away.

    Args:
        programs: P programs.
        is_free: (..., P, k).
        fixed: (..., P, k), what the others are held at.

    Returns:
        (..., P, k), not finite where there is no answer.
    """
    is_free = is_free & ~programs.is_idle
    unit = torch.where(programs.lengths > 0, 1.0 / programs.lengths, 1.0)
    held = torch.where(is_free | programs.is_idle, 0.0, fixed)
    free = is_free * unit
    a = programs.a * free
    largest = a.amax(dim=-1, keepdim=True)
    k = a.shape[-1]
    system = held.new_zeros(*a.shape[:-1], k + 1, k + 1)
    system[..., :k, :k] = programs.quadratic * free[..., :, None] * free[..., None, :]
    system[..., :k, :k] += (~is_free).to(held).diag_embed()
    system[..., :k, k] = system[..., k, :k] = a / largest
    pull = free * (programs.linear - (programs.quadratic @ held[..., None])[..., 0])
    missing = (1.0 - (programs.a * held).sum(dim=-1, keepdim=True)) / largest
    right = torch.cat([pull, missing], dim=-1)[..., None]
    ridge = torch.nn.functional.pad(RIDGE * is_free, (0, 1)).diag_embed()
    factors, pivots, _ = torch.linalg.lu_factor_ex(system + ridge)
    x = torch.linalg.lu_solve(factors, pivots, right)
    for _ in range(REFINEMENTS):
        x = x + torch.linalg.lu_solve(factors, pivots, right - system @ x)
    return torch.where(is_free, x[..., :k, 0] * unit, held)


def on_segment(programs: Programs) -> tuple[Tensor, Tensor]:
    """Two rows of the order, both with positive a, no constraints: multipliers (P, 2) and residual (P,).

    Between the corners ``b / a_i`` the objective is a parabola, whose lowest point is clipped to the segment.
    Everything is in shares of the corners, where ``a = 1``.
    """
    ends = programs.total[:, None] / programs.simplex
    corners = programs.quadratic * (ends[:, :, None] * ends[:, None, :])
    linear = programs.linear * ends
    first, cross, _, second = corners.flatten(-2).unbind(-1)
    gain, other_gain = linear.unbind(-1)
    curvature = torch.sub(first + second, cross, alpha=2).clamp_(min=0.0)
    ahead = torch.stack([second - cross + gain - other_gain, first - cross + other_gain - gain], dim=-1)
    shares = (ahead / curvature[..., None]).nan_to_num_(nan=0.5).clamp_(0.0, 1.0)
    return ends * shares, _residual_of_shares(corners, linear, shares)


def _residual_of_shares(corners: Tensor, linear: Tensor, shares: Tensor) -> Tensor:
    """The residual where a is 1, there are no constraints, and shares (P, k) are in their domain."""
    lengths = corners.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt_()
    rounding = lengths.amax(dim=-1, keepdim=True) * (EPSILON * shares.shape[-1])
    length = torch.maximum((shares * lengths).sum(dim=-1, keepdim=True), rounding)
    left = torch.baddbmm(linear[..., None], corners, shares[..., None], alpha=-1)[..., 0]
    left -= (shares * left).sum(dim=-1, keepdim=True)
    slack, size = left.abs(), linear.abs()
    relative = slack / torch.addcmul(size, lengths, length).clamp_(min=TINY)
    gap = slack * shares / torch.addcmul((size * shares).sum(dim=-1, keepdim=True), length, length).clamp_(min=TINY)
    return torch.where(left > 0, relative, torch.minimum(relative, gap)).amax(dim=-1)
