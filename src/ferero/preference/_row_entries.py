"""The rows of constraints as the entries that are not zero: a family of 100,000 bounds has 100,000, and not 10^10."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ferero.errors import InputError, UnsupportedError
from ferero.preference._expression import Constraint, LinearForm
from ferero.preference._family import FamilyConstraint
from ferero.preference._objectives import Objectives, column_of

__all__ = ["RowBlock", "RowEntries", "blocks_of", "check_forms", "coefficients", "read_entries"]

_MOST_DENSE = 2**26  # entries, half a gigabyte: a larger matrix is not made
_MOST_ENTRIES = 2**24  # that are not zero


class RowBlock(NamedTuple):
    """Successive rows: one of a single constraint, or those of a family.

    Attributes:
        part: The constraint, of one row or of one row for each member.
        start: The number of the first row, inequalities first.
        size: How many rows.
    """

    part: Constraint
    start: int
    size: int

    @property
    def stop(self) -> int:
        """The number of the row behind the last."""
        return self.start + self.size

    @property
    def is_family(self) -> bool:
        """Whether they are the rows of a family."""
        return isinstance(self.part, FamilyConstraint)

    def title(self, row: int) -> str:
        """A row in words, behind its name."""
        return (
            self.part.member(row - self.start).titled if isinstance(self.part, FamilyConstraint) else self.part.titled
        )


def blocks_of(constraints: Sequence[Constraint]) -> tuple[RowBlock, ...]:
    """All rows of the constraints in blocks, inequalities first, else as they were written."""
    parts = [part for constraint in constraints for part in constraint.parts]
    found, start = [], 0
    for part in sorted(parts, key=lambda part: part.is_equality):
        size = part.size if isinstance(part, FamilyConstraint) else 1
        found.append(RowBlock(part, start, size))
        start += size
    return tuple(found)


@dataclass(frozen=True, eq=False)
class RowEntries:
    """A matrix (k, m) by its entries that are not zero, row by row, columns ascending.

    Attributes:
        row: Where they are, (n,), int64.
        column: The same, (n,), int64.
        value: What they are, (n,).
        shape: (k, m).
    """

    row: Tensor
    column: Tensor
    value: Tensor
    shape: tuple[int, int]

    def to(self, device: torch.device | str | None, dtype: torch.dtype | None) -> RowEntries:
        """The same entries elsewhere, or these where nothing changes."""
        value = self.value.to(device=device, dtype=dtype)
        if value is self.value:
            return self
        return RowEntries(self.row.to(value.device), self.column.to(value.device), value, self.shape)

    def above(self, other: RowEntries) -> RowEntries:
        """These rows, then the other ones."""
        k, m = self.shape
        row, column = torch.cat([self.row, other.row + k]), torch.cat([self.column, other.column])
        return RowEntries(row, column, torch.cat([self.value, other.value]), (k + other.shape[0], m))

    def texts(self) -> list[str]:
        """Each row as its columns and coefficients, (k,)."""
        found = [""] * self.shape[0]
        for i, j, c in zip(self.row.tolist(), self.column.tolist(), self.value.tolist(), strict=True):
            found[i] += f" {j}:{c!r}"
        return found

    def dense(self, name: str) -> Tensor:
        """The whole matrix.

        Raises:
            UnsupportedError: where it would not fit into memory.
        """
        k, m = self.shape
        if k * m > _MOST_DENSE:
            raise UnsupportedError(
                f"{name}: expected a matrix of at most {_MOST_DENSE} entries, found {k} x {m}; families this large are "
                "for Steer and Controller with FereroPI, which need only the entries that are not zero"
            )
        matrix = self.value.new_zeros(k, m)
        matrix[self.row, self.column] = self.value
        return matrix

    def times(self, x: Tensor) -> Tensor:
        """The matrix times x (..., m), (..., k)."""
        terms = self.value.to(x) * x[..., self.column.to(x.device)]
        return x.new_zeros(*x.shape[:-1], self.shape[0]).index_add(-1, self.row.to(x.device), terms)


def check_forms(objectives: Objectives, parts: Sequence[Constraint], minimized: Sequence[LinearForm]) -> None:
    """Refuse names and families that are none of the objectives'.

    Raises:
        UnknownNameError: for another name.
        InputError: for a family of another size.
    """
    means = {family.mean for family in objectives.families}
    sizes = {family.name: family.size for family in objectives.families}
    known = set(objectives.names[: objectives.families[0].start] if objectives.families else objectives.names)

    def check(form: LinearForm) -> None:
        for name, _ in form.terms:
            if name not in known and name not in means:
                column_of(objectives, name)

    for form in minimized:
        check(form)
    for part in parts:
        if not isinstance(part, FamilyConstraint):
            check(part.left)
            check(part.right)
            continue
        for side in (part.left, part.right):
            check(side.shared)
            for name, _ in side.own:
                if name not in sizes:
                    column_of(objectives, name)  # raises: it is no family
                if sizes.get(name) != part.size:
                    raise InputError(
                        f"constraints: '{part}' is of a family of {part.size}, expected the {sizes.get(name)} members "
                        f"of '{name}'; write it with the preference's own objectives"
                    )


def read_entries(objectives: Objectives, blocks: Sequence[RowBlock]) -> tuple[RowEntries, Tensor, Tensor]:
    """The entries (k, m) of successive blocks, their constants (k,) and their margins (k,).

    Raises:
        InputError: for what is not finite, or for rows that together name too much.
    """
    first = blocks[0].start if blocks else 0
    k = blocks[-1].stop - first if blocks else 0
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    large: list[tuple[Tensor, Tensor, Tensor]] = []
    for block in blocks:
        form, at = block.part.form, block.start - first
        _check_finite(block.part, form)
        own: tuple[tuple[str, float], ...] = ()
        shared = form
        if isinstance(block.part, FamilyConstraint):
            own, shared = block.part.difference.own, block.part.difference.shared
        _add_shared(objectives, block, at, shared, rows, columns, values, large)
        for name, c in own:
            start = next(family.start for family in objectives.families if family.name == name)
            place = torch.arange(block.size)
            large.append((place + at, place + start, torch.full((block.size,), c, dtype=torch.float64)))
    few = (torch.tensor(rows, dtype=torch.int64), torch.tensor(columns, dtype=torch.int64))
    large.insert(0, (*few, torch.tensor(values, dtype=torch.float64)))
    row, column, value = (torch.cat(parts) for parts in zip(*large, strict=True))
    made = _coalesced(row, column, value, (k, len(objectives)))
    constants = [torch.full((block.size,), block.part.form.constant, dtype=torch.float64) for block in blocks]
    margins = [torch.full((block.size,), block.part.margin, dtype=torch.float64) for block in blocks]
    none = torch.zeros(0, dtype=torch.float64)
    return made, torch.cat([*constants, none]) + 0.0, torch.cat([*margins, none])


def _add_shared(
    objectives: Objectives,
    block: RowBlock,
    at: int,
    shared: LinearForm,
    rows: list[int],
    columns: list[int],
    values: list[float],
    large: list[tuple[Tensor, Tensor, Tensor]],
) -> None:
    """Add what all rows of a block share."""
    means = {family.mean: family for family in objectives.families}
    place = torch.arange(block.size) + at
    for name, c in shared.terms:
        family = means.get(name)
        if family is None and block.size == 1:
            rows.append(at)
            columns.append(column_of(objectives, name))
            values.append(c)
            continue
        start, n = (column_of(objectives, name), 1) if family is None else (family.start, family.size)
        if block.size * n > _MOST_ENTRIES:
            raise InputError(
                f"constraints: '{block.part}' has {block.size} rows of {n} terms, expected at most {_MOST_ENTRIES} "
                "terms; make the mean a loss of its own, objectives('average', ...), and compare with f.average"
            )
        shape = (block.size, n)
        where = place[:, None].expand(shape).reshape(-1), (torch.arange(n) + start).expand(shape).reshape(-1)
        large.append((*where, torch.full((block.size * n,), c / n, dtype=torch.float64)))


def _coalesced(row: Tensor, column: Tensor, value: Tensor, shape: tuple[int, int]) -> RowEntries:
    """Entries in order, those of one place added up, and without zeros."""
    key, places = torch.unique(row * shape[1] + column, return_inverse=True)
    if len(key) == len(row):
        order = places.argsort()
        return RowEntries(row[order], column[order], value[order], shape)
    total = torch.zeros(len(key), dtype=value.dtype).index_add(0, places, value)
    key, total = key[total != 0], total[total != 0]
    return RowEntries(key // shape[1], key % shape[1], total, shape)


def coefficients(objectives: Objectives, forms: Sequence[LinearForm]) -> Tensor:
    """The coefficients (k, m) of k forms."""
    parts = [Constraint(form, "<=", LinearForm()) for form in forms]
    return read_entries(objectives, blocks_of(parts))[0].dense("minimize")


def _check_finite(part: Constraint, form: LinearForm) -> None:
    if not all(map(math.isfinite, [form.constant, *(c for _, c in form.terms)])):
        raise InputError(f"constraints: '{part}' is not finite after left minus right; rescale the losses")
