"""The constraints of a preference as rows ``B F + b``, inequalities first, each as the short list of its own terms.

A bound names one loss, a difference two: what a row costs is what it names, not how many losses there are. So two
thousand bounds on a thousand losses are two thousand numbers, and not two million.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ferero.preference import Preference

__all__ = ["Rows", "rows_of"]


@dataclass(frozen=True, eq=False)
class Rows:
    """r = m_g + m_h rows over m losses, of n terms at most; of a stack with a leading dimension.

    Attributes:
        A: The rows of the order, (..., k, m).
        columns: Which losses each row names, (..., r, n); what is left over repeats loss 0.
        coefficients: Their coefficients, (..., r, n), 0 for what is left over.
        b: ``[b_g; b_h]``, (..., r).
        m_g: The number of inequalities.
        is_real: Rows that are no padding of a stack, (..., r), bool.
        real: The same as numbers.
        margins: z of each row, 0 for equalities, (..., r); None where all are 0.
        places: Which rows name each loss, (..., m, n'), and
        transposed: with which coefficients, (..., m, n').
    """

    A: Tensor
    columns: Tensor
    coefficients: Tensor
    b: Tensor
    m_g: int
    is_real: Tensor
    real: Tensor
    margins: Tensor | None
    places: Tensor
    transposed: Tensor

    @property
    def count(self) -> int:
        """The number r of rows."""
        return self.b.shape[-1]

    def pick(self, losses: Tensor) -> Tensor:
        """What each row names of anything that there is one of for each loss, (..., r, n) for (..., m)."""
        return _pick(losses, self.columns)

    def terms(self, losses: Tensor) -> Tensor:
        """``B_ji F_i`` of the losses that each row names, (..., r, n), for losses (..., m)."""
        return self.coefficients * self.pick(losses)

    def values(self, losses: Tensor) -> Tensor:
        """``B F + b``, (..., r): G, then H."""
        return self.terms(losses).sum(dim=-1) + self.b

    def combine(self, multipliers: Tensor) -> Tensor:
        """``B^T lam``, (..., m), for multipliers (..., r)."""
        return (self.transposed * _pick(multipliers, self.places)).sum(dim=-1)

    def name_any(self, losses: Tensor) -> Tensor:
        """Rows, (..., r), that name one of the marked losses, (..., m), bool."""
        return (self.pick(losses) & (self.coefficients != 0)).any(dim=-1)

    def name_only(self, losses: Tensor) -> Tensor:
        """Rows, (..., r), that name none but the marked losses, (..., m), bool."""
        return (self.pick(losses) | (self.coefficients == 0)).all(dim=-1)


def _pick(values: Tensor, places: Tensor) -> Tensor:
    """``values[..., places]``, (..., r, n) for values (..., m), with the stack's own places where there is one."""
    if places.ndim == 2:
        return values.index_select(-1, places.flatten()).reshape(*values.shape[:-1], *places.shape)
    wide = values[..., None, :].expand(*values.shape[:-1], places.shape[-2], values.shape[-1])
    return wide.gather(-1, places.expand(*wide.shape[:-1], places.shape[-1]))


@lru_cache(maxsize=256)
def rows_of(preference: Preference, device: torch.device, dtype: torch.dtype) -> Rows:
    """The rows of a preference on a device; kept, since they are asked for at every step."""
    p = preference.to(device, dtype)
    B, b = torch.cat([p.B_g, p.B_h], dim=-2), torch.cat([p.b_g, p.b_h], dim=-1)
    margins = torch.cat([p.margins, torch.zeros_like(p.b_h)], dim=-1)
    is_real = (B != 0).any(dim=-1)
    return Rows(
        p.A,
        *_short(B),
        b,
        p.m_g,
        is_real,
        is_real.to(dtype),
        margins if bool((margins > 0).any()) else None,
        *_short(B.mT),
    )


def _short(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Where each row is not 0, (..., r, n), and what it is there; n is the longest row's, and at least 1."""
    flat = matrix.reshape(-1, matrix.shape[-1]) if matrix.numel() else matrix.new_zeros(0, 1)
    row, column = flat.nonzero(as_tuple=True)
    counts = row.bincount(minlength=1)
    position = torch.arange(len(row), device=row.device) - (counts.cumsum(dim=0) - counts)[row]
    shape = (*matrix.shape[:-1], max(1, int(counts.max())))
    places, found = row.new_zeros(shape), matrix.new_zeros(shape)
    places.view(-1, shape[-1])[row, position] = column
    found.view(-1, shape[-1])[row, position] = flat[row, column]
    return places, found
