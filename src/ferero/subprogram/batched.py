"""Many programs at once in torch, without a look at any value on the host: for optimizers and for accelerators.

Tiny programs are enumerated; the others go to a primal-dual interior point with a fixed number of iterations,
after which one solve on the set of free multipliers that it found removes what the barrier left.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ferero.subprogram.enumeration import candidates, enumerate_sets, on_segment, solve_free
from ferero.subprogram.programs import TINY, Programs, Scaled

__all__ = ["solve_batched"]

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
    programs = Programs(rows, gramian, linear, simplex, total, equalities, bound)
    k, k_f = linear.shape[-1], simplex.shape[-1]
    if k == k_f == 2 and linear.device.type == "cpu" and bool(simplex.all()):  # to look is free on the CPU only
        return on_segment(programs)
    bounded = isinstance(bound, Tensor) or math.isfinite(bound)
    if candidates(k_f, k - k_f - equalities, equalities, bounded) <= CANDIDATES:
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
    """Solves for the multipliers that are free: those nearer to the middle than their rows are to being met."""
    length, slack = programs.uncancelled(lam), programs.slack(lam)
    c = (slack - programs.linear + (programs.quadratic @ lam[..., None])[..., 0]).abs()
    lack = slack / (programs.lengths * length + programs.linear.abs() + c).clamp(min=TINY)
    share = torch.maximum(programs.lengths / length.clamp(min=TINY), programs.a)
    at_upper = (programs.upper - lam) * share < lack
    at_lower = (lam - programs.lower) * share < -lack
    fixed = torch.where(at_upper, programs.upper, torch.where(at_lower, programs.lower, 0.0))
    return solve_free(programs, ~(at_upper | at_lower), fixed)


def _iterate(scaled: Scaled, idle: Tensor) -> Tensor:
    """Mehrotra's predictor and corrector on ``mu``, (P, k), a fixed number of times.

    With barriers ``z`` for the lower and ``y`` for the upper bounds and c for ``a.mu = 1``, the equations are
    ``Q mu - q - c a - z + y = 0``, ``z (mu - lower) = y (upper - mu) = 0``.
    """
    has_z, has_y = (scaled.lower > -torch.inf) & ~idle, (scaled.upper < torch.inf) & ~idle
    lower, upper = torch.where(has_z, scaled.lower, 0.0), torch.where(has_y, scaled.upper, 0.0)
    middle = torch.where(has_z, (0.5 * (lower + upper)).clamp(max=1.0), 0.0)
    mu = torch.where(idle, 0.0, torch.where(has_y, middle, torch.where(has_z, 1.0, 0.0)))
    z, y, c = has_z.to(mu), has_y.to(mu), torch.zeros_like(mu[:, :1])
    live = (~idle).to(mu)
    Q, q, a = scaled.quadratic * live[:, :, None] * live[:, None, :], scaled.linear * live, scaled.a
    count = (has_z.sum(dim=-1, keepdim=True) + has_y.sum(dim=-1, keepdim=True)).clamp(min=1)
    system = _bordered(Q, a, 1.0 - live + REGULARIZATION)
    for _ in range(ITERATIONS):
        s, t = torch.where(has_z, mu - lower, 1.0), torch.where(has_y, upper - mu, 1.0)
        wrong = (Q @ mu[..., None])[..., 0] - q - c * a - z + y
        missing = 1.0 - (a * mu).sum(dim=-1, keepdim=True)
        gap = ((z * s).sum(dim=-1, keepdim=True) + (y * t).sum(dim=-1, keepdim=True)) / count
        k = mu.shape[-1]
        system.diagonal(dim1=-2, dim2=-1)[:, :k].copy_(
            Q.diagonal(dim1=-2, dim2=-1) + 1.0 - live + REGULARIZATION + z / s + y / t
        )
        factors, pivots, _ = torch.linalg.lu_factor_ex(system)

        def newton(
            toward_z: Tensor, toward_y: Tensor, s: Tensor = s, t: Tensor = t, wrong: Tensor = wrong,
            missing: Tensor = missing, factors: Tensor = factors, pivots: Tensor = pivots,
        ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            right = torch.cat([-wrong + toward_z / s - toward_y / t, missing], dim=-1)
            step = torch.linalg.lu_solve(factors, pivots, right[..., None])[..., 0]
            d_mu, d_c = step[:, :k], -step[:, k:]
            return d_mu, d_c, (toward_z - z * d_mu) / s, (toward_y + y * d_mu) / t

        d_mu, d_c, d_z, d_y = newton(-z * s, -y * t)
        reach = _reach((s, d_mu, has_z), (t, -d_mu, has_y), (z, d_z, has_z), (y, d_y, has_y))
        ahead = (z + reach * d_z) * (s + reach * d_mu) * has_z + (y + reach * d_y) * (t - reach * d_mu) * has_y
        target = (ahead.sum(dim=-1, keepdim=True) / count / gap.clamp(min=TINY)).clamp(0.0, 1.0) ** 3 * gap
        d_mu, d_c, d_z, d_y = newton(
            (target - z * s - d_z * d_mu) * has_z, (target - y * t + d_y * d_mu) * has_y
        )
        reach = _reach((s, d_mu, has_z), (t, -d_mu, has_y), (z, d_z, has_z), (y, d_y, has_y))
        sound = d_mu.isfinite().all(dim=-1, keepdim=True) & d_z.isfinite().all(dim=-1, keepdim=True)
        step = torch.where(sound & (gap > FINISHED), TO_THE_BOUNDARY * reach, 0.0)
        mu, c, z, y = (
            torch.addcmul(x, step, d.nan_to_num()) for x, d in ((mu, d_mu), (c, d_c), (z, d_z), (y, d_y))
        )
    return mu


def _bordered(Q: Tensor, a: Tensor, diagonal: Tensor) -> Tensor:
    """``[[Q + D, a], [a^T, 0]]``, (P, k + 1, k + 1)."""
    top = torch.cat([Q + diagonal.diag_embed(), a[..., None]], dim=-1)
    bottom = torch.nn.functional.pad(a, (0, 1))[:, None]
    return torch.cat([top, bottom], dim=-2)


def _reach(*parts: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """The longest step, at most 1, that keeps every masked ``value + step * change`` non-negative, (P, 1)."""
    limits = [
        torch.where(mask & (change < 0), -value / change, torch.inf).amin(dim=-1, keepdim=True)
        for value, change, mask in parts
    ]
    return torch.stack(limits).amin(dim=0).clamp(max=1.0 / TO_THE_BOUNDARY)
