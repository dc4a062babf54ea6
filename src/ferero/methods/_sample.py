"""Some of the losses of a large family, and the rows that name them: a step on these costs what they cost.

A step touches a row only if a loss that the row names has arrived. So the rows of a sample are looked up by its losses,
their state is gathered, advanced by the law of `FereroPI`, and scattered back. What the law sums over all losses and
rows, for the common factor and for the units of bounds, is kept as running totals. The largest violation, and whether
violations only creep down, are those of the sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import torch
from torch import Tensor

from ferero.methods._channels import LOG_RANGE, Channels, channels_of
from ferero.methods._ferero_pi import FereroPI, FereroPIState, Rest
from ferero.methods._rows import Rows, SomeRows, whole_rows
from ferero.preference import Preference
from ferero.preference._row_entries import RowEntries

__all__ = ["LARGE", "OF_LOSSES", "Sample", "SampledState", "advance_sample", "is_large", "sample_of"]

LARGE = 4096  # rows from which on a step works on its sample alone
_REFRESH = 1024  # steps after which running totals are summed anew, lest rounding add up
OF_LOSSES = frozenset({"seen", "latest", "arrived", "weights", "raw"})  # fields of a state by losses
_SIZED = frozenset({"updates", "sizes", "units", "before", "earlier"})  # by rows of the order, then channels
_WHOLE = frozenset({"limit", "totals"})


def is_large(preference: Preference, method: object) -> bool:
    """Whether steps work on samples: `FereroPI` with thousands of inequalities whose levels stay, and nothing else."""
    is_single = not preference.members and preference.m_h == 0
    return is_single and not preference.moves and preference.m_g > LARGE and type(method) is FereroPI


@dataclass(frozen=True, eq=False)
class SampledState(FereroPIState):
    """The controller's memory with what a sample does not see of the others.

    Attributes:
        raw: The last weights before the common factor, (m,).
        totals: Sums over what has arrived: absolute raw weights, losses, excess of units over bounds, bounds; and the
            number of steps, (5,).
    """

    raw: Tensor
    totals: Tensor

    @classmethod
    def first(cls, state: FereroPIState) -> SampledState:
        """Before the first step."""
        zeros = torch.zeros_like(state.weights)
        return cls(
            **{field.name: getattr(state, field.name) for field in fields(state)}, raw=zeros, totals=zeros.new_zeros(5)
        )

    def after_whole(self, raw: Tensor, channels: Channels) -> SampledState:
        """With its sums, where a step took all losses together, as on a GPU."""
        raw = torch.where(self.seen > 0, raw, 0.0)
        sums = [raw.abs().sum(), (self.seen > 0).sum(), *_over(channels, self), self.arrived.amax()]
        return replace(self, raw=raw, totals=torch.stack([one.to(raw.dtype) for one in sums]))


@dataclass(frozen=True, eq=False)
class Sample:
    """What a step works on.

    Attributes:
        losses: The numbers of the losses, (t,), ascending.
        present: Which of them have arrived, (t,), bool.
        rows: The numbers of the rows, (s,), ascending.
        sized: The numbers of the order's rows and of these channels among all, (k + s,).
        channels: These losses and rows as a preference of their own.
    """

    losses: Tensor
    present: Tensor
    rows: Tensor
    sized: Tensor
    channels: Channels

    def places(self, field: str) -> Tensor | None:
        """Which entries of a field of the state are of the sample; None for all."""
        if field in _WHOLE:
            return None
        return self.losses if field in OF_LOSSES else self.sized if field in _SIZED else self.rows

    def of_state(self, state: SampledState) -> SampledState:
        """The state of the sample."""
        found = {field.name: getattr(state, field.name) for field in fields(SampledState)}
        places = {name: self.places(name) for name in found}
        return SampledState(**{name: t if (at := places[name]) is None else t[at] for name, t in found.items()})


def sample_of(preference: Preference, arrived: Tensor) -> Sample:
    """The sample of the losses with these numbers, (n,), ascending.

    Args:
        preference: A large one, see `is_large`.
        arrived: The numbers of the losses that have a value.
    """
    lookup = _lookup_of(preference)
    rows = lookup.rows_naming(arrived)
    columns, coefficients = lookup.terms(rows)
    losses = _distinct(torch.cat([arrived, columns[coefficients != 0], lookup.ordered]))
    present = torch.zeros(len(losses), dtype=torch.bool)
    present[torch.searchsorted(losses, arrived)] = True
    local = torch.searchsorted(losses, columns).clamp(max=max(len(losses) - 1, 0))
    k = lookup.whole.rows.k
    sized = torch.cat([torch.arange(k), rows + k])
    return Sample(losses, present, rows, sized, lookup.channels(losses, rows, sized, local, coefficients))


def advance_sample(
    method: FereroPI, sample: Sample, values: Tensor, known: Tensor, state: SampledState
) -> tuple[Tensor, SampledState]:
    """One step of the controller on a sample.

    Args:
        method: The method.
        sample: The sample.
        values: Its losses, (t,); those not known are not read.
        known: Which of them count, (t,), bool.
        state: That of all losses and rows.

    Returns:
        The multipliers of the order and of the rows, (k + s,), and the next state, both of the sample alone.
    """
    channels, old = sample.channels, sample.of_state(state)
    values = values.clamp(-math.exp(LOG_RANGE), math.exp(LOG_RANGE))
    rest = _rest(state, old, channels, known)
    stepped = method._step(channels, values, known, old, rest)
    raw = torch.where(known, stepped.raw, old.raw)
    new = SampledState(**vars(stepped.state) | {"raw": raw})
    counted = known.to(raw.dtype)
    over, bounds = _over(channels, new)
    totals = torch.stack(
        [
            rest.weight + (raw.abs() * counted).sum(),
            rest.losses + counted.sum(),
            rest.over + over,
            rest.bounds + bounds,
            rest.now,
        ]
    )
    return stepped.multipliers, replace(new, totals=totals)


def _rest(state: SampledState, old: SampledState, channels: Channels, known: Tensor) -> Rest:
    """What is outside of a sample; summed anew from time to time."""
    weight, losses, over, bounds, steps = state.totals.unbind()
    if int(steps) % _REFRESH == _REFRESH - 1:
        weight = state.raw.abs().sum()
    own_over, own_bounds = _over(channels, old)
    mine = known & (old.seen > 0)
    return Rest(
        (weight - (old.raw.abs() * mine).sum()).clamp(min=0),
        losses - mine.sum(),
        over - own_over,
        bounds - own_bounds,
        steps + 1,
    )


def _over(channels: Channels, state: SampledState) -> tuple[Tensor, Tensor]:
    """The excess of units over bounds, and how many of these there are."""
    counts = channels.has_bound * (state.updates > 0)
    return ((state.units - channels.bound) * counts).sum(), counts.sum()


class _Lookup:
    """The rows of a large preference by their losses, and the losses by their rows."""

    def __init__(self, preference: Preference, entries: RowEntries) -> None:
        (r, m), self._entries = entries.shape, entries
        self.whole = channels_of(preference, entries.value.device, entries.value.dtype)
        self._row_ends = entries.row.bincount(minlength=r).cumsum(dim=0)
        self._column_ends = entries.column.bincount(minlength=m).cumsum(dim=0)
        self._by_column = entries.row[entries.column.argsort(stable=True)]
        self._A = preference.A
        self.ordered = torch.nonzero((preference.A != 0).any(dim=0))[:, 0]

    def rows_naming(self, losses: Tensor) -> Tensor:
        """The rows that name one of the losses, ascending."""
        places = _ranges(self._column_ends, losses)
        return _distinct(self._by_column[places[0][places[1]]])

    def terms(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The losses that rows name, (s, n), and their coefficients, 0 for what is left over."""
        places, is_own = _ranges(self._row_ends, rows)
        places = places.clamp(max=len(self._entries.column) - 1)
        return self._entries.column[places], self._entries.value[places] * is_own

    def channels(self, losses: Tensor, rows: Tensor, sized: Tensor, local: Tensor, coefficients: Tensor) -> Channels:
        """The channels of a sample, whose rows have these local places and coefficients, (s, n)."""
        whole = self.whole.rows
        margins = None if whole.margins is None else whole.margins[rows]
        own = Rows(
            whole_rows(self._A[:, losses]),
            whole.k,
            SomeRows.of(local, coefficients, len(losses)),
            whole.b[rows],
            len(rows),
            whole.is_real[rows],
            whole.real[rows],
            margins,
        )
        return replace(
            self.whole,
            rows=own,
            ray=self.whole.ray[losses],
            bound=self.whole.bound[sized],
            has_bound=self.whole.has_bound[sized],
        )


def _distinct(numbers: Tensor) -> Tensor:
    """Without repetitions, ascending."""
    ordered = numbers.sort().values
    return torch.cat([ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]])


def _ranges(ends: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
    """The places of some ranges, which end at ``ends``, side by side, (w, n), and which of them are in their range."""
    stop = ends[which]
    start = torch.where(which > 0, ends[(which - 1).clamp(min=0)], 0)
    width = int((stop - start).max()) if len(which) else 0
    places = start[:, None] + torch.arange(max(width, 1))
    return places, places < stop[:, None]


@lru_cache(maxsize=16)
def _lookup_of(preference: Preference) -> _Lookup:
    assert preference.entries_g is not None
    return _Lookup(preference, preference.entries_g)
