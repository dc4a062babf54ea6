"""The constraints of a preference as rows ``B F + b``, inequalities first, each as the short list of its own terms.

A bound names one loss, a difference two: what a row costs is what it names, not how many losses there are. So two
thousand bounds on a thousand losses are two thousand numbers, and not two million, even beside a bound on their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from ferero.preference import Preference
from ferero.preference._preference import levels_of
from ferero.preference._row_entries import RowEntries
from ferero.preference._schedule import LevelShifts

__all__ = ["Rows", "SomeRows", "Sparse", "rows_of", "whole_rows"]

_FEW = 4096  # entries that may be padding before rows are sorted by their length


@dataclass(frozen=True, eq=False)
class _Terms:
    """The rows of a matrix (..., r, m), those of similar length side by side.

    Attributes:
        blocks: For each length n the columns (..., b, n) that rows name, None where they name all in their order, and
            the coefficients (..., b, n), 0 for what is left over (it repeats column 0).
        back: Where each row is in the blocks, (r,); None where they are in their order.
    """

    blocks: tuple[tuple[Tensor | None, Tensor], ...]
    back: Tensor | None

    def each(self, values: Tensor, reduce: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """``reduce(coefficients, values)`` of every row's terms, (..., r), for values (..., m)."""
        if values.shape[-1] == 0:  # a matrix without columns
            values = values.new_zeros(*values.shape[:-1], 1)
        parts = [reduce(coefficients, _pick(values, columns)) for columns, coefficients in self.blocks]
        if self.back is None:
            return parts[0]
        return torch.cat(parts, dim=-1).index_select(-1, self.back)


@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix M (..., r, m) at the cost of its entries that are not 0.

    Attributes:
        by_row: Its rows.
        by_column: Its columns.
    """

    by_row: _Terms
    by_column: _Terms

    @classmethod
    def of(cls, matrix: Tensor) -> Sparse:
        """From all entries (..., r, m)."""
        return cls(_terms(matrix), _terms(matrix.mT))

    @classmethod
    def of_entries(cls, entries: RowEntries) -> Sparse:
        """From the entries (r, m) that are not 0, without the others."""
        r, m = entries.shape
        order = entries.column.argsort(stable=True)
        return cls(
            _listed_terms(entries.row, entries.column, entries.value, r, m),
            _listed_terms(entries.column[order], entries.row[order], entries.value[order], m, r),
        )

    def times(self, x: Tensor) -> Tensor:
        """``M x``, (..., r), for x (..., m)."""
        return self.by_row.each(x, lambda c, v: (c * v).sum(dim=-1))

    def combine(self, y: Tensor) -> Tensor:
        """``M^T y``, (..., m), for y (..., r)."""
        return self.by_column.each(y, lambda c, v: (c * v).sum(dim=-1))

    def times_squared(self, x: Tensor) -> Tensor:
        """``sum_i (M_ji x_i)^2``, (..., r)."""
        return self.by_row.each(x, lambda c, v: (c * v).square().sum(dim=-1))

    def sides(self, x: Tensor) -> Tensor:
        """The sums of the positive and of the negative terms of ``M x``, (2, ..., r)."""

        def split(c: Tensor, v: Tensor) -> Tensor:
            terms = c * v
            return torch.stack([terms.clamp(min=0).sum(dim=-1), terms.clamp(max=0).sum(dim=-1)])

        return self.by_row.each(x, split)

    def largest(self, x: Tensor) -> Tensor:
        """The largest size of a term of ``M x``, (..., r)."""
        return self.by_row.each(x, lambda c, v: (c * v).abs().amax(dim=-1))

    def least(self, x: Tensor) -> Tensor:
        """The smallest of the x (..., m) that each row names, (..., r); inf for a row that names none."""
        return self.by_row.each(x, lambda c, v: torch.where(c != 0, v, math.inf).amin(dim=-1))

    def share_out(self, x: Tensor) -> Tensor:
        """``sum_i x_i / M_ji`` over what each row names, (..., r)."""
        return self.by_row.each(x, lambda c, v: ((c != 0) * v / torch.where(c != 0, c, 1.0)).sum(dim=-1))

    def name_any(self, marked: Tensor) -> Tensor:
        """Rows, (..., r), that name one of the marked columns, (..., m), bool."""
        return self.by_row.each(marked, lambda c, v: ((c != 0) & v).any(dim=-1))

    def name_only(self, marked: Tensor) -> Tensor:
        """Rows, (..., r), that name none but the marked columns, (..., m), bool."""
        return self.by_row.each(marked, lambda c, v: ((c == 0) | v).all(dim=-1))

    def named_by_any(self, marked: Tensor) -> Tensor:
        """Columns, (..., m), that one of the marked rows, (..., r), bool, names."""
        return self.by_column.each(marked, lambda c, v: ((c != 0) & v).any(dim=-1))


@dataclass(frozen=True, eq=False)
class SomeRows(Sparse):
    """Rows that were chosen for one step, whose columns nobody needs.

    Attributes:
        losses: How many columns there are.
    """

    losses: int

    @classmethod
    def of(cls, columns: Tensor, coefficients: Tensor, losses: int) -> SomeRows:  # type: ignore[override]
        """From the columns (r, n) that each row names, and the coefficients (r, n), 0 for what is left over."""
        return cls(_Terms(((columns, coefficients),), None), _Terms((), None), losses)

    def combine(self, y: Tensor) -> Tensor:
        """``M^T y``, (m,), for y (r,)."""
        ((columns, coefficients),) = self.by_row.blocks
        assert columns is not None
        return y.new_zeros(self.losses).index_add(0, columns.flatten(), (coefficients * y[:, None]).flatten())


def whole_rows(matrix: Tensor) -> Sparse:
    """Rows (r, m) that are used as they are, zeros and all."""
    return Sparse(_Terms(((None, matrix),), None), _Terms(((None, matrix.mT),), None))


@dataclass(frozen=True, eq=False)
class Rows:
    """r = m_g + m_h rows over m losses; of a stack with a leading dimension.

    Attributes:
        A: The rows of the order, (..., k, m).
        k: How many.
        B: ``[B_g; B_h]``, (..., r, m).
        b: ``[b_g; b_h]``, (..., r).
        m_g: The number of inequalities.
        is_real: Rows that are no padding of a stack, (..., r), bool.
        real: The same as numbers.
        margins: z of each row, 0 for equalities, (..., r); None where all are 0.
        levels: How b moves with the steps; None where it stays.
    """

    A: Sparse
    k: int
    B: Sparse
    b: Tensor
    m_g: int
    is_real: Tensor
    real: Tensor
    margins: Tensor | None
    levels: LevelShifts | None = None

    @property
    def count(self) -> int:
        """The number r of rows."""
        return self.b.shape[-1]

    def at(self, arrived: Tensor) -> Rows:
        """The rows with the levels of the present step; without a host sync.

        Args:
            arrived: The step at which each loss arrived last, (..., m): the largest is the number of steps before.
        """
        if self.levels is None:
            return self
        return replace(self, b=self.b + self.levels.shift(arrived.amax(dim=-1, keepdim=True)))

    def values(self, losses: Tensor) -> Tensor:
        """``B F + b``, (..., r): G, then H."""
        return self.B.times(losses) + self.b


def _pick(values: Tensor, places: Tensor | None) -> Tensor:
    """``values[..., places]``, (..., r, n) for values (..., m), with the stack's own places where there is one."""
    if places is None:
        return values[..., None, :]
    if places.ndim == 2:
        return values.index_select(-1, places.flatten()).reshape(*values.shape[:-1], *places.shape)
    wide = values[..., None, :].expand(*values.shape[:-1], places.shape[-2], values.shape[-1])
    return wide.gather(-1, places.expand(*wide.shape[:-1], places.shape[-1]))


@lru_cache(maxsize=256)
def rows_of(preference: Preference, device: torch.device, dtype: torch.dtype) -> Rows:
    """The rows of a preference on a device; kept, since they are asked for at every step."""
    p = preference.to(device, dtype)
    b = torch.cat([p.b_g, p.b_h], dim=-1)
    margins = torch.cat([p.margins, torch.zeros_like(p.b_h)], dim=-1)
    if p.entries_g is None or p.entries_h is None:  # a stack
        dense = torch.cat([p.B_g, p.B_h], dim=-2)
        B, is_real = Sparse.of(dense), (dense != 0).any(dim=-1)
    else:
        entries = p.entries_g.above(p.entries_h)
        B, is_real = Sparse.of_entries(entries), entries.row.bincount(minlength=len(b)) > 0
    return Rows(
        Sparse.of(p.A),
        p.A.shape[-2],
        B,
        b,
        p.m_g,
        is_real,
        is_real.to(dtype),
        margins if bool((margins > 0).any()) else None,
        levels_of(preference, b),
    )


def _terms(matrix: Tensor) -> _Terms:
    """The rows of a matrix (..., r, m) in blocks whose lengths differ by a factor of 4 at most, or in one if small."""
    widths = (matrix != 0).sum(dim=-1).reshape(-1, matrix.shape[-2]).amax(dim=0) if matrix.numel() else None
    if widths is None or len(widths) * int(widths.max()) <= _FEW:
        return _Terms((_short(matrix),), None)
    classes = (widths.clamp(min=1).log2() / 2).ceil()
    groups = [torch.nonzero(classes == c)[:, 0] for c in sorted(set(classes.tolist()))]
    blocks = tuple(_short(matrix.index_select(-2, group)) for group in groups)
    return _Terms(blocks, torch.cat(groups).argsort() if len(blocks) > 1 else None)


def _listed_terms(row: Tensor, column: Tensor, value: Tensor, r: int, m: int) -> _Terms:
    """The same from entries, row by row."""
    counts = row.bincount(minlength=r)
    position = torch.arange(len(row), device=row.device) - (counts.cumsum(dim=0) - counts)[row]
    widest = max(1, int(counts.max())) if r else 1
    if r * widest <= _FEW:
        return _Terms((_listed_block(row, column, value, position, r, m, widest),), None)
    classes = (counts.clamp(min=1).log2() / 2).ceil()
    groups = [torch.nonzero(classes == c)[:, 0] for c in sorted(set(classes.tolist()))]
    blocks = []
    for group in groups:
        place = row.new_full((r,), -1).index_copy(0, group, torch.arange(len(group), device=row.device))
        mine = place[row] >= 0
        width = max(1, int(counts[group].max()))
        own = (place[row[mine]], column[mine], value[mine], position[mine])
        blocks.append(_listed_block(*own, len(group), m, width))
    return _Terms(tuple(blocks), torch.cat(groups).argsort() if len(blocks) > 1 else None)


def _listed_block(
    row: Tensor, column: Tensor, value: Tensor, position: Tensor, r: int, m: int, width: int
) -> tuple[Tensor | None, Tensor]:
    """Rows of at most ``width`` entries side by side, as `_short` has them."""
    places, found = row.new_zeros(r, width), value.new_zeros(r, width)
    places[row, position], found[row, position] = column, value
    return (None, found) if width == m and len(value) == r * m and r else (places, found)


def _short(matrix: Tensor) -> tuple[Tensor | None, Tensor]:
    """Where each row is not 0, (..., r, n), and what it is there; n is the longest row's, and at least 1."""
    if matrix.numel() and bool((matrix != 0).all()):
        return None, matrix
    flat = matrix.reshape(-1, matrix.shape[-1]) if matrix.numel() else matrix.new_zeros(0, 1)
    row, column = flat.nonzero(as_tuple=True)
    counts = row.bincount(minlength=1)
    position = torch.arange(len(row), device=row.device) - (counts.cumsum(dim=0) - counts)[row]
    shape = (*matrix.shape[:-1], max(1, int(counts.max())))
    places, found = row.new_zeros(shape), matrix.new_zeros(shape)
    places.view(-1, shape[-1])[row, position] = column
    found.view(-1, shape[-1])[row, position] = flat[row, column]
    return places, found
