"""What is remembered of losses and constraints for the report: means, spread, trend. Nothing here steers.

The figures of a row are running ones and forget by a share at every step, so that a far start would be seen in them for
thousands of steps. Once a row has come to rest at another level they are therefore begun anew; see `advance_record`.
One batch read too large by a factor of 1e12 would be seen in them as long, without any level having moved: it is left
out; see `_believed`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from ferero.methods._rows import Rows
from ferero.training._held_out import Correction

WINDOWS = 6  # of 1, 2, 4, 8, 16 and 32 values
MEMORY = 100.0  # steps over which prediction errors, and figures of rows, are averaged
_LONG = 4 * MEMORY
_BY_CHANCE = 4.0  # standard errors by which independent values may seem to resemble each other
_LAGS = 4  # values a quarter of a swing apart have nothing in common: some of 1 to 4 values apart always have
_BEYOND = 0.25  # of the variance: the square that puts a value on a side of its mean
_TO_AND_FRO = 1.2  # changes of side that make a swing: more than one
_TURNS = 4.0  # the most that are remembered, and
_TURNS_KEPT = 1 - 1 / (2 * _LONG)  # of them at every value: slow swings turn once in a hundred
_NEAR = 1 / 6  # of the way that a mean has come: half of what is left of it while the way goes on
_OUTLIER = 100.0  # times what was usual of late: left out
_KEPT = _OUTLIER ** (-1 / MEMORY)  # of the largest size at every value: no more than 1 / _OUTLIER after MEMORY
LARGEST = 1e100  # of all figures; its square is finite


@dataclass(frozen=True, eq=False)
class Record:
    """Running figures of m losses and r rows (values ``B F + b`` of the corrected losses).

    Attributes:
        seen: How often each loss has arrived and was believed, (m,).
        levels: Training values over every window, (windows, m).
        errors: Their mean square prediction errors, (windows, m).
        latest: The last corrected value, (m,).
        size: The largest size of a training value of late, (m,).
        arrived: The step at which each loss arrived last, (m,); the largest is the number of steps.
        updates: How often each row was updated since its figures were begun, (r,).
        last: The last four values of each row, the latest first, (r, 4).
        mean: Over about 100 updates, (r,).
        variance: About that mean, (r,).
        covariance: Of values one to four updates apart, (r, 4).
        long_mean: Over about 400 updates, (r,).
        side: On which side of its mean each row was last, by as much as it varies: 1, -1 or, at first, 0, (r,).
        turns: How often that has changed of late, (r,); those of smaller swings than today's count less.
        skipped: Batches left out because they were not finite, ().
    """

    seen: Tensor
    levels: Tensor
    errors: Tensor
    latest: Tensor
    size: Tensor
    arrived: Tensor
    updates: Tensor
    last: Tensor
    mean: Tensor
    variance: Tensor
    covariance: Tensor
    long_mean: Tensor
    side: Tensor
    turns: Tensor
    skipped: Tensor

    @classmethod
    def empty(cls, m: int, r: int, batch: tuple[int, ...] = ()) -> Record:
        """Before the first step; of many models at once with leading dimensions."""

        def of(*shape: int) -> Tensor:
            return torch.zeros(batch + shape, dtype=torch.float64)

        return cls(
            of(m), of(WINDOWS, m), of(WINDOWS, m), of(m), of(m), of(m), of(r), of(r, _LAGS), of(r), of(r),
            of(r, _LAGS), of(r), of(r), of(r), of(),
        )  # fmt: skip


def tracked(record: Record) -> Tensor:
    """The training losses over the windows that predict them best, (m,)."""
    return best_level(record.levels, record.errors.argmin(dim=-2))


def advance_record(old: Record, rows: Rows, losses: Tensor, corrected: Tensor, present: Tensor | None) -> Record:
    """Take in one step: training losses and corrected ones, (m,), of those present, (m,), bool; None for all.

    A row begins anew, with its last two values, once it has come to rest at another level: its mean has moved, since
    400 steps, by more than the values vary about it, so that what varies is a way and no noise and no swing; and the
    last two values are near the mean. On a steady way, where the means lag by 100 and 400 steps, the values are a third
    of the distance between the means ahead, twice what counts as near.
    """
    has_arrived = present
    present, size = _believed(old.size, losses, present)
    corrected = corrected.clamp(-LARGEST, LARGEST)
    if present is None:
        here = torch.ones_like(losses)
    else:  # what is left out is to be multiplied by 0 and must not be inf
        here, losses = present.to(losses.dtype), losses.clamp(-LARGEST, LARGEST)
    seen = old.seen + here
    levels, misses = advance_levels(old.levels, losses, seen, here)
    errors = advance_errors(old.errors, misses.square(), seen, here)
    latest = corrected if present is None else torch.where(present, corrected, old.latest)
    step = old.arrived.amax(dim=-1, keepdim=True) + 1
    arrived = step.expand_as(old.arrived) if has_arrived is None else torch.where(has_arrived, step, old.arrived)

    touched = rows.real if present is None else _touched(rows, seen, present)
    updates = old.updates + touched
    values, last = rows.values(latest), old.last[..., 0]
    rate = touched / updates.clamp(min=1, max=MEMORY)
    away = values - old.mean
    mean = old.mean + rate * away
    now, before = values - mean, old.last - mean[..., None]
    variance = torch.lerp(old.variance, away * now, rate)
    is_known = updates[..., None] > _lags(updates.dtype, updates.device)
    covariance = torch.lerp(old.covariance, before * now[..., None] * is_known, rate[..., None])
    long_mean = torch.lerp(old.long_mean, values, touched / updates.clamp(min=1, max=_LONG))
    side = torch.where(now.square() > _BEYOND * variance, now.sign(), old.side)
    as_large = (old.variance / variance.clamp(min=torch.finfo(variance.dtype).tiny)).clamp(max=1)
    turns = (_TURNS_KEPT * as_large * old.turns + (side * old.side < 0)).clamp(max=_TURNS)
    latter = torch.cat([values[..., None], old.last[..., :-1]], dim=-1)
    new = Record(
        seen, levels, errors, latest, size, arrived, updates,
        latter if present is None else torch.where(touched[..., None] > 0, latter, old.last),
        mean, variance, covariance, long_mean, side, turns, old.skipped,
    )  # fmt: skip
    moved = (mean - long_mean).square()
    is_over = (moved > variance) & (now.square() + before[..., 0].square() < _NEAR**2 * moved) & (touched > 0)
    if _can_read(is_over) and not bool(is_over.any()):  # as a rule, and quicker
        return new
    middle, half = (values + last) / 2, (values - last) / 2
    return replace(
        new,
        updates=torch.where(is_over, 2.0, updates),
        mean=torch.where(is_over, middle, mean),
        variance=torch.where(is_over, half.square(), variance),
        covariance=torch.where(is_over[..., None], 0.0, covariance),
        long_mean=torch.where(is_over, middle, long_mean),
    )


def shift_record(record: Record, rows: Rows, old: Correction, new: Correction, is_metric: Tensor) -> Record:
    """Move what is remembered by what a measurement changes the corrected losses by; spread and trend stay.

    Rows of a metric, (m,), bool, that was measured for the first time were in other units and begin with the next
    value.
    """
    change = new.apply(tracked(record)) - old.apply(tracked(record))
    is_new = is_metric & (old.observed == 0) & (new.observed > 0)
    by = rows.B.times(change)
    return replace(
        record,
        latest=record.latest + change,
        updates=torch.where(rows.B.name_any(is_new), 0.0, record.updates),
        last=record.last + by[..., None],
        mean=record.mean + by,
        long_mean=record.long_mean + by,
    )


def _believed(old: Tensor, losses: Tensor, present: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """Which losses (m,) to take in, None for all, and the largest sizes of late, (m,), from those before.

    A value that is more than 100 times the largest of late counts as missing. That largest grows 100-fold by it, and
    is forgotten at a pace of as much in 100 values. So one outlier leaves no trace, of whatever size; what happens more
    often than once in 100 values is counted in full, and so is a jump, a value later for every factor of 100.
    """
    now, limit = losses.abs(), _OUTLIER * old
    if present is None and _can_read(now) and bool((now <= limit).all()):  # as a rule, and quicker
        return None, torch.maximum(now, _KEPT * old)
    limit = torch.where(old > 0, limit, LARGEST)
    size = torch.maximum(torch.minimum(now, limit), _KEPT * old)
    is_usual = now <= limit
    return (is_usual, size) if present is None else (present & is_usual, torch.where(present, size, old))


def _touched(rows: Rows, seen: Tensor, present: Tensor) -> Tensor:
    """1 for rows (r,) with news, once all their losses have arrived, else 0."""
    return (rows.B.name_only(seen > 0) & rows.B.name_any(present)).to(seen.dtype)


def standard_error(record: Record) -> Tensor:
    """That of each row's mean as a figure for the present, (r,).

    Fewer effective values are counted where successive ones resemble each other; and where the mean drifts, the present
    is about a third of (mean - long mean) ahead of it: the two lag behind by 100 and 400 steps.
    """
    variance = record.variance.clamp(min=0)
    likeness = record.covariance[..., 0] / variance.clamp(min=torch.finfo(variance.dtype).tiny)
    likeness = likeness.clamp(min=0, max=0.98)
    return (variance / _count(record) * (1 + likeness) / (1 - likeness) + _ahead(record).square()).sqrt()


def swing(record: Record) -> Tensor:
    """How far each row's value moves to and fro with the model, one standard deviation, (r,).

    What values share with, or have opposite to, those just before is the model's; what they do not is the batches'
    noise. Some of the variance may look shared by chance. A steady drift is taken off: it makes the values
    vary by how far the present is ahead of their mean. And a way to another level, however abrupt, is no swing: that
    changes sides again and again, and each time by as much.
    """
    by_chance = (_BY_CHANCE / _count(record).sqrt()).clamp(max=0.9)
    shared = _shared(record) - by_chance * record.variance - _ahead(record).square()
    found = (shared.clamp(min=0) / (1 - by_chance)).sqrt()
    return torch.where(record.turns >= _TO_AND_FRO, found, 0.0)


def batch_noise(record: Record) -> Tensor:
    """One standard deviation of what successive values of each row do not share, (r,): the luck of the batches."""
    return (record.variance - _shared(record)).clamp(min=0).sqrt()


def _count(record: Record) -> Tensor:
    """Of values behind the mean, in effect, (r,)."""
    return (2 * record.updates - 1).clamp(min=1, max=2 * MEMORY - 1)


def _shared(record: Record) -> Tensor:
    return record.covariance.abs().amax(dim=-1)


def _ahead(record: Record) -> Tensor:
    return (record.mean - record.long_mean) / 3


@cache
def _lags(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.arange(1, _LAGS + 1, dtype=dtype, device=device)


def _can_read(tensor: Tensor) -> bool:
    """Whether numbers may be asked for: a device would have to be waited for."""
    return tensor.device.type == "cpu"


# the level of a noisy loss --------------------------------------------------------------------------------
#
# No window is right for all losses: a mean over a long one lags behind a loss that moves, a mean over a short one is
# noisy. So levels over windows of 1, 2, 4, ... values run side by side, each predicts the next value, and `tracked`
# takes the one with the smallest mean square error: a long window for noise without drift, a short one for drift.


def advance_levels(levels: Tensor, values: Tensor, seen: Tensor, arrived: Tensor) -> tuple[Tensor, Tensor]:
    """``level_j <- level_j + max(2^-j, 1 / seen) (value - level_j)`` where a value arrived.

    Args:
        levels: (..., WINDOWS, r).
        values: (..., r).
        seen: How many values have arrived, this one included, (..., r).
        arrived: 1 where one arrived now, else 0, (..., r).

    Returns:
        The levels, and what each failed to predict, both (..., WINDOWS, r).
    """
    misses = (values[..., None, :] - levels) * arrived[..., None, :]
    rates = torch.maximum(_rates(levels.dtype, levels.device), seen.clamp(min=1).reciprocal()[..., None, :])
    return torch.addcmul(levels, rates, misses), misses


def advance_errors(errors: Tensor, squares: Tensor, seen: Tensor, arrived: Tensor) -> Tensor:
    """Mean square prediction errors (..., WINDOWS, c), the first value (which nobody could predict) left out."""
    rate = arrived * (seen > 1) / (seen - 1).clamp(min=1, max=MEMORY)
    return torch.lerp(errors, squares, rate[..., None, :].expand_as(errors))


def best_level(levels: Tensor, window: Tensor) -> Tensor:
    """The level (..., r) over the window chosen for each number (..., r)."""
    return levels.gather(-2, window[..., None, :].expand_as(levels[..., :1, :]))[..., 0, :]


@cache
def _rates(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.exp2(-torch.arange(WINDOWS, dtype=dtype, device=device))[:, None]
