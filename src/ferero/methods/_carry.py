"""What a method has learned under one preference, carried over to another over the same losses."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ferero.methods._ferero_pi import FereroPIState
from ferero.preference import Preference
from ferero.preference._row_entries import RowEntries

__all__ = ["RowMatch", "carry_ferero_pi", "take"]

_LOSSES = frozenset({"seen", "latest", "arrived", "weights", "limit"})  # fields that no row changes
_SIZED = frozenset({"updates", "sizes", "units", "before", "earlier"})  # of rows of the order, then of channels


@dataclass(frozen=True, eq=False)
class RowMatch:
    """Which row of an old preference each row of a new one continues: one with the same coefficients; -1 for none.

    Attributes:
        order: For the rows of A, (k,).
        inequalities: For those of B_g, (m_g,).
        equalities: For those of B_h, (m_h,).
        is_same_block: Whether all equalities have the coefficients that they had.
    """

    order: Tensor
    inequalities: Tensor
    equalities: Tensor
    is_same_block: bool

    @classmethod
    def of(cls, old: Preference, new: Preference) -> RowMatch:
        """Of two single preferences over the same names; levels may differ."""
        order, g, h = ([_texts(p, which) for p in (old, new)] for which in ("A", "entries_g", "entries_h"))
        return cls(_match(*order), _match(*g), _match(*h), h[0] == h[1])

    def rows(self, m_g: int) -> Tensor:
        """For inequalities, then equalities, (r,); the old preference has m_g inequalities."""
        return torch.cat([self.inequalities, torch.where(self.equalities >= 0, self.equalities + m_g, -1)])


def take(old: Tensor, new: Tensor, match: Tensor) -> Tensor:
    """Rows (r, ...) of ``new``, replaced by those of ``old`` that they continue."""
    match = match.to(new.device)
    found = new.clone()
    found[match >= 0] = old[match[match >= 0]].to(new)
    return found


def carry_ferero_pi(
    state: FereroPIState, first: FereroPIState, old: Preference, new: Preference, match: RowMatch
) -> FereroPIState:
    """The state of `FereroPI` under a new preference: its first one, with what rows and losses have learned.

    The channels of losses that equalities name stay only where the equalities have the coefficients that they had,
    since they belong to the block.

    Args:
        state: Under the old preference.
        first: Before the first step under the new one.
        old: The old preference.
        new: The new one.
        match: Of the two.
    """
    of_losses = torch.arange(new.m) if match.is_same_block and new.m_h else torch.full((new.m if new.m_h else 0,), -1)
    channels = torch.cat([match.inequalities, torch.where(of_losses >= 0, of_losses + old.m_g, -1)])
    k = old.A.shape[-2]
    sized = torch.cat([match.order, torch.where(channels >= 0, channels + k, -1)])
    matches = {"updated": match.rows(old.m_g)} | dict.fromkeys(_SIZED, sized)

    def carried(name: str) -> Tensor:
        mine: Tensor = getattr(state, name)
        return mine if name in _LOSSES else take(mine, getattr(first, name), matches.get(name, channels))

    return FereroPIState(**{field.name: carried(field.name) for field in fields(FereroPIState)})


def _texts(preference: Preference, which: str) -> list[str]:
    """Each row of the order, or of constraints, as text."""
    rows = getattr(preference, which)
    if isinstance(rows, RowEntries):
        return rows.to("cpu", torch.float64).texts()
    return [str(row) for row in (rows.cpu().double() + 0.0).tolist()]


def _match(old: list[str], new: list[str]) -> Tensor:
    places: defaultdict[str, list[int]] = defaultdict(list)
    for i, row in reversed(list(enumerate(old))):
        places[row].append(i)
    return torch.tensor([places[row].pop() if places[row] else -1 for row in new], dtype=torch.int64)
