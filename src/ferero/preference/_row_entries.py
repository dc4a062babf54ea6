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
    written = _Written()
    for block in blocks:
        _add_block(written, objectives, block, block.start - first)
    constants = [torch.full((block.size,), block.part.form.constant, dtype=torch.float64) for block in blocks]
    margins = [torch.full((block.size,), block.part.margin, dtype=torch.float64) for block in blocks]
    none = torch.zeros(0, dtype=torch.float64)
    entries = _coalesced(*written.joined(), (k, len(objectives)))
    return entries, torch.cat([*constants, none]) + 0.0, torch.cat([*margins, none])


class _Written:
    """Entries as they are found: single ones, and those of many rows at once."""

    def __init__(self) -> None:
        self._single: list[tuple[int, int, float]] = []
        self._many: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, row: int, column: int, value: float) -> None:
        self._single.append((row, column, value))

    def add_many(self, rows: Tensor, columns: Tensor, value: float) -> None:
        """The same value at all pairs of rows and columns that broadcast together."""
        rows, columns = (rows + 0 * columns).reshape(-1), (columns + 0 * rows).reshape(-1)
        self._many.append((rows, columns, torch.full((len(rows),), value, dtype=torch.float64)))

    def joined(self) -> tuple[Tensor, Tensor, Tensor]:
        rows, columns, values = zip(*self._single, strict=True) if self._single else ((), (), ())
        single = torch.tensor(rows, dtype=torch.int64), torch.tensor(columns, dtype=torch.int64)
        everything = [(*single, torch.tensor(values, dtype=torch.float64)), *self._many]
        row, column, value = (torch.cat(parts) for parts in zip(*everything, strict=True))
        return row, column, value


def _add_block(written: _Written, objectives: Objectives, block: RowBlock, at: int) -> None:
    """Add the rows of a block, the first of which has the number ``at``."""
    shared = block.part.form
    _check_finite(block.part, shared)
    rows = torch.arange(at, at + block.size)
    families = {family.name: family for family in objectives.families}
    if isinstance(block.part, FamilyConstraint):
        difference = block.part.difference
        shared = difference.shared
        for name, c in difference.own:
            written.add_many(rows, rows - at + families[name].start, c)
    means = {family.mean: family for family in objectives.families}
    for name, c in shared.terms:
        family = means.get(name)
        if family is not None:
            _check_size(block, family.size)
            written.add_many(rows[:, None], torch.arange(family.start, family.stop), c / family.size)
        elif block.size == 1:
            written.add(at, column_of(objectives, name), c)
        else:
            written.add_many(rows, torch.tensor(column_of(objectives, name)), c)


def _check_size(block: RowBlock, terms: int) -> None:
    if block.size * terms > _MOST_ENTRIES:
        raise InputError(
            f"constraints: '{block.part}' has {block.size} rows of {terms} terms, expected at most {_MOST_ENTRIES} "
            "terms; make the mean a loss of its own, objectives('average', ...), and compare with f.average"
        )


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
