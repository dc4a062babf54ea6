"""Euclidean projections onto the domains of the multipliers: weighted simplex, box, and their product.

They run inside every step, over many preferences at once, so they are plain tensor operations: batched over
leading dimensions, on any device, without a host sync. They trust their arguments.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["project_box", "project_multipliers", "project_simplex", "project_weighted_simplex"]


def project_weighted_simplex(x: Tensor, a: Tensor, b: Tensor | float) -> Tensor:
    """Projects ``x`` onto ``{z >= 0, a.z = b}``.

    The projection is ``z = [x - t a]_+`` for the one t with ``a.z = b``. As t falls, coordinate i wakes at
    ``t_i = x_i / a_i``, so a sort finds t exactly. Written as ``z_i = a_i [(t_i - t_j) + (t_j - t)]_+``, with
    j the last to wake, nothing large is subtracted, and ``a.z = b`` holds to rounding however far x is.

    Args:
        x: (..., k).
        a: (..., k), non-negative with a positive entry. Where a is 0, x is only clipped at 0.
        b: (...), positive.

    Returns:
        z (..., k), of the dtype of ``x``; the work is done in float64.
    """
    points, normal, level = x.double(), a.double(), _like(b, a.double())
    batch = np.broadcast_shapes(x.shape[:-1], a.shape[:-1], level.shape)
    scale = normal.amax(dim=-1, keepdim=True)
    points = points.expand(*batch, -1)
    normal, level = (normal / scale).expand(*batch, -1), (level[..., None] / scale).expand(*batch, -1)
    free = normal == 0
    wake = torch.where(free, -torch.inf, points / torch.where(free, 1.0, normal))
    last, pace, filled = _last_awake(wake, normal, level)
    awake = normal * (wake - last + (level - filled) / pace).clamp(min=0)
    return torch.where(free, points.clamp(min=0), awake).to(x.dtype)


def project_simplex(x: Tensor) -> Tensor:
    """Projects ``x`` onto ``{z >= 0, sum(z) = 1}``, in a few launches.

    The projection is ``z = [x - t]_+`` with ``t = max_j (x_(1) + ... + x_(j) - 1) / j`` over the sorted x. It is taken
    relative to the largest entry, so that nothing large is subtracted.

    Args:
        x: (..., k).

    Returns:
        z (..., k), of the dtype of ``x``; the work is done in float64.
    """
    below = x.double() - x.amax(dim=-1, keepdim=True).double()
    falling = below.sort(dim=-1, descending=True).values
    counts = torch.arange(1, x.shape[-1] + 1, dtype=torch.float64, device=x.device)
    t = ((falling.cumsum(dim=-1) - 1.0) / counts).amax(dim=-1, keepdim=True)
    return (below - t).clamp(min=0.0).to(x.dtype)


def _last_awake(wake: Tensor, normal: Tensor, level: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Finds the last coordinate j to wake before ``a.z`` reaches ``level``.

    Returns:
        Its ``t_j``, the sum of ``a_i^2`` over those then awake, and ``a.z`` at ``t_j``, each (..., 1).
    """
    times, order = wake.sort(dim=-1, descending=True)
    pace = normal.gather(-1, order).square().cumsum(dim=-1)
    steps = (times[..., :-1] - times[..., 1:]) * pace[..., :-1]
    filled = torch.cat([torch.zeros_like(level), steps.cumsum(dim=-1)], dim=-1)
    last = (filled < level).sum(dim=-1, keepdim=True) - 1
    return times.gather(-1, last), pace.gather(-1, last), filled.gather(-1, last)


def project_box(x: Tensor, lower: Tensor | float | None, upper: Tensor | float | None) -> Tensor:
    """Projects ``x`` onto ``{lower <= z <= upper}``.

    Args:
        x: (..., k).
        lower: Broadcasts against ``x``; None is no bound.
        upper: Broadcasts against ``x``, not below ``lower``; None is no bound.

    Returns:
        z, of the dtype of ``x``.
    """
    if lower is not None:
        x = torch.maximum(x, _like(lower, x))
    if upper is not None:
        x = torch.minimum(x, _like(upper, x))
    return x


def project_multipliers(
    multipliers: Tensor, a: Tensor, b: Tensor | float, m_g: int, bound: Tensor | float | None = None
) -> Tensor:
    """Projects ``[lam_f; lam_g; lam_h]`` onto ``{lam_f >= 0, a.lam_f = b} x [0, rho]^m_g x [-rho, rho]^m_h``.

    Args:
        multipliers: (..., m_f + m_g + m_h).
        a: (..., m_f), as in :func:`project_weighted_simplex`; its length is m_f.
        b: (...), positive.
        m_g: Number of inequality constraints.
        bound: rho, one number or (...); None is no bound.

    Returns:
        (..., m_f + m_g + m_h), of the dtype of ``multipliers``.
    """
    m_f = a.shape[-1]
    rho = None if bound is None else _like(bound, multipliers)[..., None]
    parts = [
        project_weighted_simplex(multipliers[..., :m_f], a, b),
        project_box(multipliers[..., m_f : m_f + m_g], 0.0, rho),
        project_box(multipliers[..., m_f + m_g :], None if rho is None else -rho, rho),
    ]
    batch = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return torch.cat([part.expand(*batch, -1) for part in parts], dim=-1)


def _like(value: Tensor | float, x: Tensor) -> Tensor:
    """Returns ``value`` with the dtype and device of ``x``; numbers by a fill, since copying one is a host sync."""
    return value.to(x) if isinstance(value, Tensor) else x.new_full((), value)
