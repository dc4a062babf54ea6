"""Small linear programs on the simplex: maximise ``c.x`` over ``x >= 0``, ``sum(x) = 1``, ``M x >= b``.

One at a time by HiGHS, or many at once in torch by the simplex method on dense tableaus: that ends in a corner, exact
to rounding, and unlike an interior point needs no strictly feasible one, which EPO's rows do not leave at Pareto
stationary points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ferero._arrays import Array
from ferero.subprogram._program import EPSILON, TINY

__all__ = ["FEASIBLE", "Vertex", "Vertices", "solve_linear", "solve_linear_batched"]

FEASIBLE = 1e-9  # what a row, scaled to a largest entry of one, may miss
OPTIMAL = 1e-10  # reduced costs, of an objective scaled the same way, that count as none
PIVOT = 1e-9  # entries of a tableau too small to divide by
ACCEPTED = 1e-11  # what a certificate of HiGHS may leave over without a second opinion
ROUNDS = 3  # pivots per row and column at most; the hardest programs tried took 1.1


class Vertex(NamedTuple):
    """One answer and its certificate.

    Attributes:
        x: (m,), on the simplex.
        missed: The most that a row is violated by, relative to the row's largest entry.
        gap: What any feasible point could gain over ``c.x``, relative to the largest entry of c; infinite where
            the rows cannot be met.
    """

    x: Array
    missed: float
    gap: float


class Vertices(NamedTuple):
    """P answers as tensors, each as :class:`Vertex` has it: x (P, m), missed (P,) and gap (P,)."""

    x: Tensor
    missed: Tensor
    gap: Tensor


def solve_linear(objective: Array, rows: Array, sides: Array) -> Vertex:
    """Solves one program through HiGHS; where its rows contradict each other, the point that misses them least.

    HiGHS meets rows to 1e-7 and finds no nearest point, so where its certificate is not good enough the other form
    gives a second opinion.

    Args:
        objective: c, (m,).
        rows: M, (k, m).
        sides: b, (k,); minus infinity for a row that does not count.

    Example:
        >>> solve_linear(np.array([1.0, 2.0]), np.array([[1.0, 0.0]]), np.array([0.25])).x.tolist()
        [0.25, 0.75]
    """
    counts = sides > -np.inf
    M, b = rows[counts], sides[counts]
    size = np.abs(M).max(axis=1, initial=0.0)
    size = np.where(size > 0, size, np.maximum(np.abs(b), TINY))
    M, b = M / size[:, None], b / size
    c = objective / max(float(np.abs(objective).max()), TINY)
    found = _highs(c, M, b)
    if found is not None and found.missed <= ACCEPTED and found.gap <= ACCEPTED:
        return found
    x, missed, gap = solve_linear_batched(*(torch.from_numpy(part[None]) for part in (c, M, b)))
    other = Vertex(x[0].numpy(), float(missed), float(gap))
    return other if found is None else min(found, other, key=lambda v: max(v.missed, v.gap))


def _highs(c: Array, M: Array, b: Array) -> Vertex | None:
    """The optimum; None where the rows cannot be met."""
    from scipy.optimize import linprog

    found = linprog(-c, A_ub=-M, b_ub=-b, A_eq=np.ones((1, len(c))), b_eq=np.ones(1), method="highs")
    if found.status != 0 or found.x is None:
        return None
    return _judged(found.x, -found.ineqlin.marginals, c, M, b)


def _judged(x: Array, prices: Array, c: Array, M: Array, b: Array) -> Vertex:
    """Puts x on the simplex and adds the certificate; any prices >= 0 of the rows bound the gap."""
    x = np.maximum(x, 0.0)
    x = x / x.sum() if 0 < x.sum() < np.inf else np.full(len(c), 1.0 / len(c))
    u = np.maximum(prices, 0.0)
    missed = float((b - M @ x).max(initial=0.0))
    gap = float((c + u @ M).max() - u @ b - c @ x)
    return Vertex(x, missed, gap if missed <= FEASIBLE else np.inf)


def solve_linear_batched(objectives: Tensor, rows: Tensor, sides: Tensor) -> Vertices:
    """Solves P programs of one shape, without a host sync on a GPU.

    The number of pivots is fixed; what is not optimal after them is feasible, and its gap says how far it is. Where
    rows contradict each other the point that misses them least is returned.

    Args:
        objectives: c, (P, m), float64.
        rows: M, (P, k, m).
        sides: b, (P, k); minus infinity for a row that does not count.

    Example:
        >>> c, M, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[[1.0, 0.0]]]), torch.tensor([[0.25]])
        >>> solve_linear_batched(c.double(), M.double(), b.double()).x.tolist()
        [[0.25, 0.75]]
    """
    programs = _scaled(objectives, rows, sides)
    tableau = _start(programs)
    k, m = rows.shape[-2:]
    is_on_host = objectives.device.type == "cpu"  # reading a value costs nothing there
    limit = ROUNDS * (m + k + 1)
    for turn in range(limit):
        column, is_open, in_first = _entering(tableau, by_index=turn >= limit * 2 // 3)
        if is_on_host and not bool(is_open.any()):
            break
        row = _leaving(tableau, column, in_first, by_index=turn >= limit * 2 // 3)
        tableau = _pivot(tableau, row, column, is_open)
    return _certified(programs, tableau.basis)


class _ScaledPrograms(NamedTuple):
    """Scaled data c (P, m), M (P, k, m), b (P, k), and the equations ``[M -I 1; 1 0 0] (x, s, t) = (b, 1)``."""

    c: Tensor
    M: Tensor
    b: Tensor
    columns: Tensor
    right: Tensor


class _Tableau(NamedTuple):
    """The equations solved for the basis: entries (P, k + 3, m + k + 2), and who is basic in each row (P, k + 1).

    The last column is the right side; the last two rows are the reduced costs of c and of ``-t``, where t is what
    the worst row misses. Columns are x, the rows' slacks s, and t.
    """

    entries: Tensor
    basis: Tensor


def _scaled(c: Tensor, M: Tensor, b: Tensor) -> _ScaledPrograms:
    counts = b > -torch.inf
    M = torch.where(counts[..., None], M, 0.0)
    b = torch.where(counts, b, -1.0)
    size = M.abs().amax(dim=-1)
    size = torch.where(size > 0, size, b.abs().clamp(min=TINY))
    M, b = M / size[..., None], b / size
    c = c / c.abs().amax(dim=-1, keepdim=True).clamp(min=TINY)
    k = M.shape[-2]
    slacks = -torch.eye(k, dtype=M.dtype, device=M.device).expand(len(M), k, k)
    top = torch.cat([M, slacks, torch.ones_like(M[..., :1])], dim=-1)
    bottom = torch.nn.functional.pad(torch.ones_like(c), (0, k + 1))
    columns = torch.cat([top, bottom[:, None]], dim=-2)
    return _ScaledPrograms(c, M, b, columns, torch.nn.functional.pad(b, (0, 1), value=1.0))


def _start(programs: _ScaledPrograms) -> _Tableau:
    """The corner with the largest c; where it misses a row, t takes the place of the worst row's slack."""
    c, M, _, columns, right = programs
    (P, k, m), device = M.shape, M.device
    top = -torch.cat([columns[:, :k], right[:, :k, None]], dim=-1)
    sums = torch.cat([columns[:, k:], right[:, k:, None]], dim=-1)
    costs = torch.nn.functional.pad(-c, (0, k + 2))[:, None]
    misses = torch.nn.functional.pad(torch.ones_like(c[:, None, :1]), (m + k, 1))
    slacks = torch.arange(m, m + k, device=device).expand(P, k)
    tableau = _Tableau(torch.cat([top, sums, costs, misses], dim=-2), torch.nn.functional.pad(slacks, (0, 1)))
    everywhere = torch.ones(P, dtype=torch.bool, device=device)
    last = torch.full((P,), k, device=device)
    tableau = _pivot(tableau, last, c.argmax(dim=-1), everywhere)
    if k == 0:
        return tableau
    lowest, worst = tableau.entries[:, :k, -1].min(dim=-1)
    return _pivot(tableau, worst, torch.full((P,), m + k, device=device), lowest < 0)


def _pivot(tableau: _Tableau, row: Tensor, column: Tensor, is_open: Tensor) -> _Tableau:
    """Makes ``column`` basic in ``row``, each (P,), where ``is_open``."""
    entries, basis = tableau
    P, height, width = entries.shape
    line = entries.gather(1, row[:, None, None].expand(P, 1, width))
    line = line / line.gather(2, column[:, None, None])
    factors = entries.gather(2, column[:, None, None].expand(P, height, 1))
    is_row = torch.arange(height, device=row.device) == row[:, None]
    turned = torch.where(is_row[..., None], line, entries - factors * line)
    chosen = torch.where(is_row[:, :-2], column[:, None], basis)
    return _Tableau(torch.where(is_open[:, None, None], turned, entries), torch.where(is_open[:, None], chosen, basis))


def _entering(tableau: _Tableau, *, by_index: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The column to enter, whether there is one to gain from, and whether rows are still missed, (P,) each."""
    entries, basis = tableau
    t = entries.shape[-1] - 2
    is_t = basis == t
    missed = torch.where(is_t, entries[:, :-2, -1], 0.0).sum(dim=-1)
    costs = entries[:, -2:, :t]
    can_gain = (costs < -OPTIMAL).any(dim=-1)
    in_first = is_t.any(dim=-1) & (missed > 0) & can_gain[:, 1]
    is_open = in_first | ((missed <= FEASIBLE) & can_gain[:, 0])
    chosen = torch.where(in_first[:, None], costs[:, 1], costs[:, 0])
    column = (chosen < -OPTIMAL).to(torch.int8).argmax(dim=-1) if by_index else chosen.argmin(dim=-1)
    return column, is_open, in_first


def _leaving(tableau: _Tableau, column: Tensor, in_first: Tensor, *, by_index: bool) -> Tensor:
    """The row that the ratio test chooses, (P,): of several t's first, then the lowest index or largest entry."""
    entries, basis = tableau
    t = entries.shape[-1] - 2
    right = entries[:, :-2, -1].clamp(min=0.0)
    entry = entries[:, :-2].gather(2, column[:, None, None].expand(*basis.shape, 1))[..., 0]
    ratio = torch.where(entry > PIVOT, right / entry.clamp(min=PIVOT), torch.inf)
    is_t = basis == t
    ratio = torch.where(is_t & ~in_first[:, None] & (entry.abs() > PIVOT), 0.0, ratio)
    least = ratio.amin(dim=-1, keepdim=True)
    ties = ratio <= least + EPSILON * (1.0 + least)
    rank = (t - basis).to(entry) if by_index else entry.abs()
    rank = torch.where(is_t, torch.inf, rank)
    return torch.where(ties, rank, -torch.inf).argmax(dim=-1)


def _certified(programs: _ScaledPrograms, basis: Tensor) -> Vertices:
    """Solves for the basis in the original data, which undoes the rounding of all pivots."""
    c, M, b, columns, right = programs
    m = c.shape[-1]
    square = columns.gather(2, basis[:, None, :].expand(*basis.shape, basis.shape[-1]))
    factors, pivots, _ = torch.linalg.lu_factor_ex(square)
    values = torch.linalg.lu_solve(factors, pivots, right[..., None])
    values = values + torch.linalg.lu_solve(factors, pivots, right[..., None] - square @ values)
    x = torch.zeros_like(columns[:, 0]).scatter(1, basis, values[..., 0])[:, :m]
    x = x.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).clamp(min=0.0)
    total = x.sum(dim=-1, keepdim=True)
    x = torch.where(total > 0, x / total, 1.0 / m)
    worth = torch.nn.functional.pad(c, (0, columns.shape[-1] - m)).gather(1, basis)
    prices = torch.linalg.lu_solve(factors, pivots, worth[..., None], adjoint=True)[:, :-1, 0]
    u = (-prices).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).clamp(min=0.0)
    missed = (b - (M @ x[..., None])[..., 0]).amax(dim=-1).clamp(min=0.0) if b.shape[-1] else torch.zeros_like(c[:, 0])
    gap = (c + (u[:, None] @ M)[:, 0]).amax(dim=-1) - (u * b).sum(dim=-1) - (c * x).sum(dim=-1)
    return Vertices(x, missed, torch.where(missed > FEASIBLE, torch.inf, gap))
