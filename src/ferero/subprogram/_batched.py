"""Many programs at once in torch, without a look at any value on the host.

Tiny programs are enumerated; the others go to a primal-dual interior point with a fixed number of iterations,
after which one solve on the set of free multipliers that it found removes what the barrier left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ferero.subprogram._enumeration import candidates, enumerate_sets, on_segment, solve_free
from ferero.subprogram._program_batch import TINY, Programs, Scaled

__all__ = ["solve_batched", "solve_programs"]

CANDIDATES = 64  # sets of free multipliers up to which enumeration is cheaper and exact
ITERATIONS = 30
MENDINGS = 2
REGULARIZATION = 2.0**-44  # of the scaled equations, whose entries are about one
TO_THE_BOUNDARY = 0.995
FINISHED = 2.0**-50  # mean complementarity below which a program rests


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
    """The same for programs already put together."""
    k, k_f, k_h = programs.linear.shape[-1], programs.simplex.shape[-1], programs.equalities
    is_near = programs.linear.device.type == "cpu"  # to look is free on the CPU only
    if k == k_f == 2 and is_near and bool(programs.simplex.all()):
        return on_segment(programs)
    bounded = isinstance(programs.bound, Tensor) or math.isfinite(programs.bound)
    if candidates(k_f, k - k_f - k_h, k_h, bounded) <= CANDIDATES:
        return enumerate_sets(programs)
    return _interior_point(programs)


def _interior_point(programs: Programs) -> tuple[Tensor, Tensor]:
    scaled = programs.scaled()
    lam = programs.feasible(_iterate(scaled, programs.is_idle) * scaled.unit)
    residual = programs.residual(lam).nan_to_num(nan=torch.inf)
    for _ in range(MENDINGS):
        mended = programs.feasible(_mend(programs, lam))
        judged = programs.residual(mended).nan_to_num(nan=torch.inf)
        lam = torch.where((judged < residual)[:, None], mended, lam)
        residual = torch.minimum(judged, residual)
    return lam, residual


def _mend(programs: Programs, lam: Tensor) -> Tensor:
    """Solves anew for the free multipliers: those farther from a bound than their rows are from being met."""
    length, slack = programs.uncancelled(lam), programs.slack(lam)
    c = (slack - programs.linear + (programs.quadratic @ lam[..., None])[..., 0]).abs()
    lack = slack / (programs.lengths * length + programs.linear.abs() + c).clamp(min=TINY)
    share = torch.maximum(programs.lengths / length.clamp(min=TINY), programs.a)
    at_upper = (programs.upper - lam) * share < lack
    at_lower = (lam - programs.lower) * share < -lack
    fixed = torch.where(at_upper, programs.upper, torch.where(at_lower, programs.lower, 0.0))
    return solve_free(programs, ~(at_upper | at_lower), fixed)


class _Point(NamedTuple):
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

    def step(self, at: _Point, toward_z: Tensor, toward_y: Tensor) -> _Point:
        """The step that changes ``z (mu - lower)`` and ``y (upper - mu)`` by the given amounts."""
        right = torch.cat([toward_z / self.below - toward_y / self.above - self.wrong, self.missing], dim=-1)
        solved = torch.linalg.lu_solve(self.factors, self.pivots, right[..., None])[..., 0]
        mu = solved[:, :-1]
        return _Point(mu, -solved[:, -1:], (toward_z - at.z * mu) / self.below, (toward_y + at.y * mu) / self.above)


def _iterate(scaled: Scaled, idle: Tensor) -> Tensor:
    """Mehrotra's predictor and corrector on ``mu``, (P, k), a fixed number of times.

    The equations are ``Q mu - q - c a - z + y = 0``, ``a.mu = 1``, ``z (mu - lower) = y (upper - mu) = 0``.
    """
    has_z, has_y = (scaled.lower > -torch.inf) & ~idle, (scaled.upper < torch.inf) & ~idle
    lower, upper = torch.where(has_z, scaled.lower, 0.0), torch.where(has_y, scaled.upper, 0.0)
    start = torch.where(has_y, (0.5 * (lower + upper)).clamp(max=1.0), has_z.to(lower))
    at = _Point(start, torch.zeros_like(start[:, :1]), has_z.to(lower), has_y.to(lower))
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
        at = _Point(*(torch.where(sound, x + reach * d, x) for x, d in zip(at, step, strict=True)))
    return at.mu


def _bordered(Q: Tensor, a: Tensor) -> Tensor:
    """``[[Q, a], [a^T, 0]]``, (P, k + 1, k + 1)."""
    top = torch.cat([Q, a[..., None]], dim=-1)
    return torch.cat([top, torch.nn.functional.pad(a, (0, 1))[:, None]], dim=-2)


def _reach(newton: _Newton, at: _Point, step: _Point, has_z: Tensor, has_y: Tensor) -> Tensor:
    """The longest step, at most about 1, that keeps barriers and room to the bounds non-negative, (P, 1)."""
    value = torch.cat([newton.below, newton.above, at.z, at.y], dim=-1)
    change = torch.cat([step.mu, -step.mu, step.z, step.y], dim=-1)
    counts = torch.cat([has_z, has_y, has_z, has_y], dim=-1) & (change < 0)
    limit = torch.where(counts, -value / change, torch.inf).amin(dim=-1, keepdim=True)
    return limit.clamp(max=1.0 / TO_THE_BOUNDARY)
