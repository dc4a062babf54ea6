"""The subprogram where the losses are: on a GPU a look at a value on the host would wait for all work before it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ferero.preference import Preference
from ferero.subprogram._augmented_rows import Stacked, stacked
from ferero.subprogram._batched import solve_programs
from ferero.subprogram._program import Domain
from ferero.subprogram._program_batch import Programs
from ferero.subprogram._solution import Solution, Status

__all__ = ["LARGE", "solve_on_device", "without_asymmetry"]

LARGE = 1e6  # stands in for no bound: whether there is a solution without one cannot be asked here


def solve_on_device(
    preference: Preference, losses: Tensor, gramian: Tensor, *, c_g: float, c_h: float, domain: Domain, bound: float
) -> Solution:
    """What ``solve_subprogram(solver="batched")`` returns, with nothing looked at: arguments are trusted.

    Args:
        preference: What is wanted; a stack of P adds a batch dimension.
        losses: F, (..., m).
        gramian: (..., m, m).
        c_g: The inequalities' rate.
        c_h: The equalities' rate.
        domain: "adaptive" or "simplex".
        bound: rho.
    """
    rows = _rows_on(preference, losses.device)
    F, m = losses.detach().double(), preference.m
    k_f, k = rows.sizes[0], rows.matrix.shape[-2]
    values = (rows.matrix @ F[..., None])[..., 0] + rows.offsets
    if domain == "adaptive":
        a, b = values[..., :k_f], values[..., :k_f].sum(dim=-1)
    else:
        a = (rows.matrix[..., :k_f, :] != 0).any(dim=-1).to(F).expand(*values.shape[:-1], k_f)
        b = torch.ones_like(values[..., 0])
    rates = torch.cat([F.new_full((n,), c) for n, c in zip(rows.sizes, (0.0, c_g, c_h), strict=True)])
    batch = np.broadcast_shapes(values.shape[:-1], gramian.shape[:-2])
    K = without_asymmetry(gramian.detach()).expand(*batch, m, m).reshape(-1, m, m)
    programs = Programs(
        rows.matrix.expand(*batch, k, m).reshape(-1, k, m),
        K,
        (rates * values).expand(*batch, k).reshape(-1, k),
        a.expand(*batch, k_f).reshape(-1, k_f),
        b.expand(batch).reshape(-1),
        rows.sizes[2],
        bound,
    )
    return _packed(programs, rows.sizes, batch)


def without_asymmetry(gramian: Tensor) -> Tensor:
    """A gramian in float64, symmetric, with the rounding of its type added to its diagonal: positive semidefinite."""
    rounding = torch.finfo(gramian.dtype if gramian.is_floating_point() else torch.float64).eps
    K = gramian.double()
    ridge = gramian.shape[-1] * rounding * K.diagonal(dim1=-2, dim2=-1)
    return 0.5 * (K + K.mT) + torch.diag_embed(ridge)


@lru_cache(maxsize=256)
def _rows_on(preference: Preference, device: torch.device) -> Stacked:
    matrix, offsets, sizes = stacked(preference)
    return Stacked(matrix.to(device), offsets.to(device), sizes)


def _packed(programs: Programs, sizes: tuple[int, int, int], batch: tuple[int, ...]) -> Solution:
    lam, residual = solve_programs(programs)
    weights = (lam[:, None] @ programs.rows)[:, 0]
    slopes = -(programs.gramian @ weights[..., None])[..., 0]
    left = programs.linear - (programs.quadratic @ lam[..., None])[..., 0]
    c = (lam * left)[:, : sizes[0]].sum(dim=-1)
    psi = c - 0.5 * (weights * slopes).sum(dim=-1)
    optimal: Status = "optimal"
    status = (optimal,) * len(lam) if batch else optimal
    weights, lam, slopes = (part.reshape((*batch, part.shape[-1])) for part in (weights, lam, slopes))
    c, psi, residual = (part.reshape(batch) for part in (c, psi, residual))
    return Solution(weights, lam, slopes, c, psi, residual, status, "batched", sizes)
