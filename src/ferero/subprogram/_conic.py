"""A linear gain against a norm on the simplex: maximise ``q.alpha - u sqrt(alpha.K alpha)``, for weighted Chebyshev.

It is the dual of a step of length at most u that makes the largest of m linearised losses small, with the step along
``-K^(1/2) alpha``. For the s at which ``sqrt(alpha.K alpha) = u s`` it is the quadratic program of
``alpha.K alpha / 2 - s q.alpha``, for which there are solvers. While the same shares are positive its solution is
``p + s v`` with ``p.K v = 0``, which gives s in closed form, so that a few programs suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from ferero.subprogram._batched import solve_batched
from ferero.subprogram._exact import solve_exact
from ferero.subprogram._program import Program

__all__ = ["maximize_gain", "maximize_gain_batched"]

ROUNDS = 8  # the hardest programs tried took 6
RIDGE = 2.0**-44  # of the largest entry of K: makes the answer unique and s positive
LARGEST = 2.0**40  # s beyond which the gain alone decides
ACCEPTED = 1e-11  # what shares may lack of 0, and slopes of each other, on the piece that is the right one

_Solver: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


def maximize_gain(q: Tensor, K: Tensor, u: Tensor, counts: Tensor) -> Tensor:
    """Solves P programs one by one on the CPU, through the exact solver; arguments and result as for the other."""
    return _search(q.cpu(), K.cpu(), u.cpu(), counts.cpu(), _one_by_one).to(q.device)


def maximize_gain_batched(q: Tensor, K: Tensor, u: Tensor, counts: Tensor) -> Tensor:
    """Solves P programs at once, without a host sync on a GPU.

    Args:
        q: The gains, (P, m), float64, of the order of one.
        K: (P, m, m), positive semidefinite, of the order of one.
        u: The price of the norm, (P,), positive.
        counts: Which shares may be positive, (P, m), bool; at least one in each program.

    Returns:
        alpha, (P, m), on the simplex.

    Example:
        >>> q, K, u = torch.tensor([[1.0, 0.0]]).double(), torch.eye(2).double()[None], torch.ones(1).double()
        >>> maximize_gain_batched(q, K, u, q > -1).round(decimals=6).tolist()
        [[1.0, 0.0]]
    """
    return _search(q, K, u, counts, _together)


def _search(q: Tensor, K: Tensor, u: Tensor, counts: Tensor, solve: _Solver) -> Tensor:
    """Newton's method for ``sqrt(alpha(s).K alpha(s)) = u s``, exact on each piece, kept in a shrinking interval.

    The ratio of the left side to s falls in s, so each trial tells on which side of it the answer is.
    """
    K = K + RIDGE * torch.eye(q.shape[-1], dtype=K.dtype, device=K.device)
    q = torch.where(counts, q, 0.0)
    low, high = torch.zeros_like(u), torch.full_like(u, LARGEST)
    s = (1.0 / u).clamp(max=LARGEST)
    is_found = torch.zeros_like(u, dtype=torch.bool)
    ends = torch.where(counts, q - u[:, None] * K.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt(), -torch.inf)
    gain, corner = ends.max(dim=-1)
    best = (torch.arange(q.shape[-1], device=q.device) == corner[:, None]).to(q)
    for _ in range(ROUNDS):
        alpha = solve(K, s[:, None] * q, counts)
        pull, surplus = _slopes(q, K, s, alpha)
        is_short = (alpha * pull).sum(dim=-1).clamp(min=0.0).sqrt() < u * s
        low, high = torch.where(is_short, low, s), torch.where(is_short, s, high)
        is_positive = counts & (alpha * (1.0 + s[:, None]) > surplus)  # an interior point leaves no zeros
        s, exact = _on_piece(q, K, u, is_positive)
        tried = torch.where(s.isfinite()[:, None], exact, alpha).clamp(min=0.0)
        for one in (alpha, tried / tried.sum(dim=-1, keepdim=True)):
            found = _gain(q, K, u, one)
            is_better = ~is_found & (found > gain)
            best, gain = torch.where(is_better[:, None], one, best), torch.where(is_better, found, gain)
        surplus = torch.where(counts, _slopes(q, K, s, exact)[1], 0.0)
        is_found = is_found | (torch.minimum(surplus / (1.0 + s[:, None]), exact) >= -ACCEPTED).all(dim=-1)
        if q.device.type == "cpu" and bool(is_found.all()):  # reading a value costs nothing there
            break
        middle = torch.where(low > 0, (low * high).sqrt(), high / 16.0)
        s = torch.where((s >= low) & (s <= high), s, middle)
    best = best.clamp(min=0.0)
    return best / best.sum(dim=-1, keepdim=True)


def _gain(q: Tensor, K: Tensor, u: Tensor, alpha: Tensor) -> Tensor:
    """``q.alpha - u sqrt(alpha.K alpha)``, (P,)."""
    length = (alpha * (K @ alpha[..., None])[..., 0]).sum(dim=-1).clamp(min=0.0).sqrt()
    return (q * alpha).sum(dim=-1) - u * length


def _slopes(q: Tensor, K: Tensor, s: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """``K alpha``, and by how much each entry of ``K alpha - s q`` exceeds their mean under alpha, (P, m) each."""
    pull = (K @ alpha[..., None])[..., 0]
    left = pull - s[:, None] * q
    return pull, left - (alpha * left).sum(dim=-1, keepdim=True)


def _on_piece(q: Tensor, K: Tensor, u: Tensor, is_positive: Tensor) -> tuple[Tensor, Tensor]:
    """The s (P,) of ``|p + s v| = u s`` with the given shares free, infinite where there is none, and ``p + s v``."""
    free, (P, m) = is_positive.to(q), q.shape
    system = torch.zeros(P, m + 1, m + 1, dtype=q.dtype, device=q.device)
    system[:, :m, :m] = K * free[:, :, None] * free[:, None, :] + (1.0 - free).diag_embed()
    system[:, :m, m] = system[:, m, :m] = free
    right = torch.zeros(P, m + 1, 2, dtype=q.dtype, device=q.device)
    right[:, m, 0], right[:, :m, 1] = 1.0, q * free
    factors, pivots, _ = torch.linalg.lu_factor_ex(system)
    solved = torch.linalg.lu_solve(factors, pivots, right)
    solved = solved + torch.linalg.lu_solve(factors, pivots, right - system @ solved)
    p, v = solved[:, :m].unbind(-1)
    fixed, growing = ((x * (K @ x[..., None])[..., 0]).sum(dim=-1).clamp(min=0.0) for x in (p, v))
    room = u * u - growing
    s = torch.where(room > 0, fixed / torch.where(room > 0, room, 1.0), torch.inf).sqrt()
    s = s.nan_to_num(nan=torch.inf, posinf=torch.inf)
    return s, p + s[:, None] * v


def _together(K: Tensor, linear: Tensor, counts: Tensor) -> Tensor:
    rows = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device) * counts[..., None]
    return solve_batched(rows, K, linear, counts.to(K), torch.ones_like(linear[:, 0]))[0]


def _one_by_one(K: Tensor, linear: Tensor, counts: Tensor) -> Tensor:
    found = np.zeros(linear.shape)
    for one, gramian, gain, used in zip(found, K.numpy(), linear.numpy(), counts.numpy(), strict=True):
        rows = np.eye(len(gain))[used]
        program = Program(rows, gramian, gain[used], np.ones(len(rows)), 1.0)
        one[used] = solve_exact(program).multipliers
    return torch.from_numpy(found)
