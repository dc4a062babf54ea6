"""The batched solver: many programs of one shape at once in torch, without a host sync.

Tiny programs are enumerated: every set of free multipliers is solved at once, and the residual chooses. The others go
to a primal-dual interior point with a fixed number of iterations, after which one solve on the set of free multipliers
that it found removes what the barrier left. Two rows of the order and nothing else have a closed form.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ferero.subprogram._program import EPSILON, TINY, Programs, Scaled

__all__ = ["solve_batched", "solve_programs"]

CANDIDATES = 64  # sets of free multipliers up to which enumeration is cheaper and exact
ITERATIONS = 30
REFITS = 2
REGULARIZATION = 2.0**-44  # of the scaled equations, whose entries are about one
TO_THE_BOUNDARY = 0.995
RIDGE = 2.0**-44  # keeps the equations solvable where free rows are dependent; refined away afterwards
REFINEMENTS = 2
STATES = {"zero": 0, "free": 1, "upper": 2, "lower": 3}
FINISHED = 2.0**-50  # mean complementarity below which a program is done


def solve_batched(
    rows: Tensor,
    gramian: Tensor,
    linear: Tensor,
    simplex: Tensor,
    total: Tensor,
    equalities: int = 0,
    bound: Tensor | float = torch.inf,
) -> tuple[Tensor, Tensor]:
    """Solves P dual programs of one shape.

    Float64 in and out; arguments are trusted. Rows of zeros (padding) keep multiplier 0.

    Args:
        rows: S = [A; B_g; B_h], (P, k, m).
        gramian: K, (P, m, m).
        linear: q, (P, k).
        simplex: a, (P, k_f).
        total: b, (P,).
        equalities: How many of the last rows are equalities.
        bound: rho, a number or (P,).

    Returns:
        Multipliers (P, k) and their residual (P,), as :meth:`Program.residual` defines it.
    """
    return solve_programs(Programs(rows, gramian, linear, simplex, total, equalities, bound))


def solve_programs(programs: Programs) -> tuple[Tensor, Tensor]:
    """`solve_batched` for programs already put together."""
    k, k_f, k_h = programs.linear.shape[-1], programs.simplex.shape[-1], programs.equalities
    is_on_host = programs.linear.device.type == "cpu"  # reading a value costs nothing there
    if k == k_f == 2 and is_on_host and bool(programs.simplex.all()):
        return _solve_segment(programs)
    bounded = isinstance(programs.bound, Tensor) or math.isfinite(programs.bound)
    if _count_sets(k_f, k - k_f - k_h, k_h, bounded) <= CANDIDATES:
        return _enumerate_sets(programs)
    return _interior_point(programs)


def _interior_point(programs: Programs) -> tuple[Tensor, Tensor]:
    scaled = programs.scaled()
    lam = programs.feasible(_iterate(scaled, programs.is_idle) * scaled.unit)
    residual = programs.residual(lam).nan_to_num(nan=torch.inf)
    for _ in range(REFITS):
        refined = programs.feasible(_refine(programs, lam))
        judged = programs.residual(refined).nan_to_num(nan=torch.inf)
        lam = torch.where((judged < residual)[:, None], refined, lam)
        residual = torch.minimum(judged, residual)
    return lam, residual


def _refine(programs: Programs, lam: Tensor) -> Tensor:
    """Solves anew for the free multipliers: those farther from a bound than their rows are from being met."""
    length, slack = programs.uncancelled(lam), programs.slack(lam)
    c = (slack - programs.linear + (programs.quadratic @ lam[..., None])[..., 0]).abs()
    lack = slack / (programs.lengths * length + programs.linear.abs() + c).clamp(min=TINY)
    share = torch.maximum(programs.lengths / length.clamp(min=TINY), programs.a)
    at_upper = (programs.upper - lam) * share < lack
    at_lower = (lam - programs.lower) * share < -lack
    fixed = torch.where(at_upper, programs.upper, torch.where(at_lower, programs.lower, 0.0))
    return _solve_free(programs, ~(at_upper | at_lower), fixed)


class _Iterate(NamedTuple):
    """Scaled multipliers mu (P, k), c (P, 1), barriers z of the lower and y of the upper bounds (P, k)."""

    mu: Tensor
    c: Tensor
    z: Tensor
    y: Tensor


class _Newton(NamedTuple):
    """The linearised equations at a point: their factors, the room to the bounds, what is not yet met."""

    factors: Tensor
    pivots: Tensor
    below: Tensor
    above: Tensor
    wrong: Tensor
    missing: Tensor

    def step(self, at: _Iterate, toward_z: Tensor, toward_y: Tensor) -> _Iterate:
        """The step that changes ``z (mu - lower)`` and ``y (upper - mu)`` by the given amounts."""
        right = torch.cat([toward_z / self.below - toward_y / self.above - self.wrong, self.missing], dim=-1)
        solved = torch.linalg.lu_solve(self.factors, self.pivots, right[..., None])[..., 0]
        mu = solved[:, :-1]
        return _Iterate(mu, -solved[:, -1:], (toward_z - at.z * mu) / self.below, (toward_y + at.y * mu) / self.above)


def _iterate(scaled: Scaled, idle: Tensor) -> Tensor:
    """Mehrotra's predictor and corrector on ``mu``, (P, k), a fixed number of times.

    The equations are ``Q mu - q - c a - z + y = 0``, ``a.mu = 1``, ``z (mu - lower) = y (upper - mu) = 0``.
    """
    has_z, has_y = (scaled.lower > -torch.inf) & ~idle, (scaled.upper < torch.inf) & ~idle
    lower, upper = torch.where(has_z, scaled.lower, 0.0), torch.where(has_y, scaled.upper, 0.0)
    start = torch.where(has_y, (0.5 * (lower + upper)).clamp(max=1.0), has_z.to(lower))
    at = _Iterate(start, torch.zeros_like(start[:, :1]), has_z.to(lower), has_y.to(lower))
    live = (~idle).to(lower)
    Q, q, a = scaled.quadratic * live[:, :, None] * live[:, None, :], scaled.linear * live, scaled.a
    fixed = Q.diagonal(dim1=-2, dim2=-1) + (1.0 - live + REGULARIZATION)
    count = (has_z.sum(dim=-1, keepdim=True) + has_y.sum(dim=-1, keepdim=True)).clamp(min=1)
    system = _bordered(Q, a)
    for _ in range(ITERATIONS):
        mu, c, z, y = at
        below, above = torch.where(has_z, mu - lower, 1.0), torch.where(has_y, upper - mu, 1.0)
        system.diagonal(dim1=-2, dim2=-1)[:, :-1].copy_(fixed + z / below + y / above)
        factors, pivots, _ = torch.linalg.lu_factor_ex(system)
        wrong = (Q @ mu[..., None])[..., 0] - q - c * a - z + y
        missing = 1.0 - (a * mu).sum(dim=-1, keepdim=True)
        newton = _Newton(factors, pivots, below, above, wrong, missing)
        products = z * below, y * above
        gap = (products[0] + products[1]).sum(dim=-1, keepdim=True) / count
        guess = newton.step(at, -products[0], -products[1])
        reach = _reach(newton, at, guess, has_z, has_y)
        ahead = (z + reach * guess.z) * (below + reach * guess.mu) * has_z
        ahead = ahead + (y + reach * guess.y) * (above - reach * guess.mu) * has_y
        share = ahead.sum(dim=-1, keepdim=True) / count / gap.clamp(min=TINY)
        target = gap * share.clamp(0.0, 1.0) ** 3
        step = newton.step(
            at,
            (target - products[0] - guess.z * guess.mu) * has_z,
            (target - products[1] + guess.y * guess.mu) * has_y,
        )
        reach = TO_THE_BOUNDARY * _reach(newton, at, step, has_z, has_y)
        sound = torch.cat(step, dim=-1).isfinite().all(dim=-1, keepdim=True) & (gap > FINISHED)
        at = _Iterate(*(torch.where(sound, x + reach * d, x) for x, d in zip(at, step, strict=True)))
    return at.mu


def _bordered(Q: Tensor, a: Tensor) -> Tensor:
    """``[[Q, a], [a^T, 0]]``, (P, k + 1, k + 1)."""
    top = torch.cat([Q, a[..., None]], dim=-1)
    return torch.cat([top, torch.nn.functional.pad(a, (0, 1))[:, None]], dim=-2)


def _reach(newton: _Newton, at: _Iterate, step: _Iterate, has_z: Tensor, has_y: Tensor) -> Tensor:
    """The longest step, at most about 1, that keeps barriers and room to the bounds non-negative, (P, 1)."""
    value = torch.cat([newton.below, newton.above, at.z, at.y], dim=-1)
    change = torch.cat([step.mu, -step.mu, step.z, step.y], dim=-1)
    counts = torch.cat([has_z, has_y, has_z, has_y], dim=-1) & (change < 0)
    limit = torch.where(counts, -value / change, torch.inf).amin(dim=-1, keepdim=True)
    return limit.clamp(max=1.0 / TO_THE_BOUNDARY)


def _count_sets(order: int, inequalities: int, equalities: int, bounded: bool) -> int:
    """How many sets :func:`_enumerate_sets` would try."""
    return int((2**order - 1) * (3 if bounded else 2) ** inequalities * (3 if bounded else 1) ** equalities)


@lru_cache(maxsize=32)
def _states(order: int, inequalities: int, equalities: int, bounded: bool, device: torch.device) -> Tensor:
    """The states (C, k) of all sets: at least one row of the order is free. Cached: a copy to a GPU is a host sync."""
    zero, free, upper, lower = STATES.values()
    f = [states for states in itertools.product((zero, free), repeat=order) if any(states)]
    g = itertools.product((zero, free, upper) if bounded else (zero, free), repeat=inequalities)
    h = itertools.product((free, upper, lower) if bounded else (free,), repeat=equalities)
    return torch.tensor([list(itertools.chain(*parts)) for parts in itertools.product(f, g, h)], device=device)


def _enumerate_sets(programs: Programs) -> tuple[Tensor, Tensor]:
    """The best of all candidate sets: multipliers (P, k) and residual (P,)."""
    k, k_f, k_h = programs.linear.shape[-1], programs.simplex.shape[-1], programs.equalities
    bounded = isinstance(programs.bound, Tensor) or math.isfinite(programs.bound)
    states = _states(k_f, k - k_f - k_h, k_h, bounded, programs.linear.device)[:, None]
    fixed = torch.where(states == STATES["upper"], programs.upper, 0.0)
    fixed = torch.where(states == STATES["lower"], programs.lower, fixed)
    lam = programs.feasible(_solve_free(programs, states == STATES["free"], fixed))
    residual = programs.residual(lam).nan_to_num(nan=torch.inf)
    best = residual.argmin(dim=0, keepdim=True)
    lam = lam.gather(0, best[..., None].expand(1, *lam.shape[1:]))[0]
    return lam.nan_to_num(), residual.gather(0, best)[0]


def _solve_free(programs: Programs, is_free: Tensor, fixed: Tensor) -> Tensor:
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


def _solve_segment(programs: Programs) -> tuple[Tensor, Tensor]:
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
