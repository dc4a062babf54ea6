"""Projected gradients on the dual: the paper's inner loop, and an accelerated form of it."""

from __future__ import annotations

import torch
from torch import Tensor

from ferero.geometry import project_multipliers, project_weighted_simplex
from ferero.subprogram._program import TINY, Programs, Scaled

__all__ = ["pgd"]

ITERATIONS = 3000
PAPER_STEP, PAPER_TOLERANCE, PAPER_ITERATIONS = 0.1, 1e-5, 250


def pgd(
    programs: Programs,
    *,
    accelerated: bool = True,
    step: float | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> Tensor:
    """Projected gradient steps ``lam <- Proj(lam - step (Q lam - q))`` from uniform multipliers.

    Accelerated: Nesterov's extrapolation, restarted where it points uphill, on scaled rows, with the inverse
    of the largest eigenvalue as the step. Not accelerated: the paper's loop on the rows as they are, which
    stops when no multiplier moves by more than ``tol``.

    Args:
        programs: P programs.
        accelerated: False for the paper's form.
        step: The step; None for the inverse of the largest eigenvalue, in the paper's form for 0.1. In the
            accelerated form it is in units of that inverse.
        tol: Largest change of a multiplier at which to stop, checked after each step; None never checks (and
            never syncs with the host), except in the paper's form, where it is 1e-5.
        max_iter: None for 3000, in the paper's form 250.

    Returns:
        Multipliers (P, k), in their domain.
    """
    if accelerated:
        return _accelerated(programs, 1.0 if step is None else step, tol, max_iter or ITERATIONS)
    step, tol = PAPER_STEP if step is None else step, PAPER_TOLERANCE if tol is None else tol
    m_g = programs.linear.shape[-1] - programs.simplex.shape[-1] - programs.equalities
    lam = programs.uniform
    for _ in range(max_iter or PAPER_ITERATIONS):
        ahead = lam - step * ((programs.quadratic @ lam[..., None])[..., 0] - programs.linear)
        previous, lam = lam, project_multipliers(ahead, programs.simplex, programs.total, m_g, programs.bound)
        if bool((lam - previous).abs().max() <= tol):
            break
    return lam


def _accelerated(programs: Programs, step: float, tol: float | None, max_iter: int) -> Tensor:
    scaled, k_f = programs.scaled(), programs.simplex.shape[-1]
    largest = torch.linalg.eigvalsh(scaled.quadratic)[:, -1:].clamp(min=TINY)
    Q, q = scaled.quadratic * (step / largest)[..., None], scaled.linear * (step / largest)
    mu = programs.uniform / scaled.unit
    ahead, momentum = mu, torch.ones_like(largest)
    for _ in range(max_iter):
        previous, mu = mu, _project(ahead - (Q @ ahead[..., None])[..., 0] + q, scaled, k_f)
        change = mu - previous
        is_uphill = ((ahead - mu) * change).sum(dim=-1, keepdim=True) > 0
        faster = 0.5 + 0.5 * torch.sqrt(1.0 + 4.0 * momentum * momentum)
        ahead = mu + torch.where(is_uphill, 0.0, (momentum - 1.0) / faster) * change
        momentum = torch.where(is_uphill, 1.0, faster)
        if tol is not None and bool((change * scaled.unit).abs().max() <= tol):
            break
    return programs.feasible(mu * scaled.unit)


def _project(mu: Tensor, scaled: Scaled, k_f: int) -> Tensor:
    order = project_weighted_simplex(mu[:, :k_f], scaled.a[:, :k_f], 1.0)
    rest = torch.minimum(torch.maximum(mu[:, k_f:], scaled.lower[:, k_f:]), scaled.upper[:, k_f:])
    return torch.cat([order, rest], dim=-1)
