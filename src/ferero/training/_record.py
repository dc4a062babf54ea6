"""Running statistics of losses and constraints for the report: means, variances, trends. Nothing here steers.

Running means forget slowly, so a far start, or one outlier of 1e12 times the usual size, would show in them for
thousands of steps. So the statistics of a row restart once it has settled at another level (see `advance_record`), and
outliers are left out (see `_usual`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from ferero.methods._carry import take
from ferero.methods._rows import Rows
from ferero.training._held_out import Correction

PER_ROW = ("updates", "last", "mean", "variance", "covariance", "long_mean", "side", "turns")  # fields of a record
WINDOWS = 6  # of 1, 2, 4, 8, 16 and 32 values
MEMORY = 100.0  # steps over which prediction errors, and figures of rows, are averaged
_LONG = 4 * MEMORY
_BY_CHANCE = 4.0  # standard errors by which independent values may seem correlated
_LAGS = 4  # values a quarter of a swing apart are uncorrelated, but not those of all lags from 1 to 4
_BEYOND = 0.25  # of the variance: the squared distance at which a value counts as on one side of its mean
_TO_AND_FRO = 1.2  # changes of side that make a swing: more than one
_TURNS = 4.0  # the most changes of side that are counted
_TURNS_KEPT = 1 - 1 / (2 * _LONG)  # decay of that count at every value: slow swings turn once in a hundred
_NEAR = 1 / 6  # of the distance between the means: half of what the values are ahead by in a steady drift
_OUTLIER = 100.0  # times the largest recent size: left out
_SIZE_KEPT = _OUTLIER ** (-1 / MEMORY)  # decay of that size at every value: to 1 / _OUTLIER after MEMORY
LARGEST = 1e100  # all values are clamped to it; its square is finite


@dataclass(frozen=True, eq=False)
class Record:
    """Running statistics of m losses and r rows (values ``B F + b`` of the corrected losses).

    Attributes:
        seen: How often each loss has arrived and was no outlier, (m,).
        levels: Training values over every window, (windows, m).
        errors: Their mean square prediction errors, (windows, m).
        latest: The last corrected value, (m,).
        size: The largest recent size of a training value, (m,).
        arrived: The step at which each loss arrived last, (m,); the largest is the number of steps.
        updates: How often each row was updated since its statistics were started, (r,).
        last: The last four values of each row, the latest first, (r, 4).
        mean: Over about 100 updates, (r,).
        variance: About that mean, (r,).
        covariance: Of values one to four updates apart, (r, 4).
        long_mean: Over about 400 updates, (r,).
        side: On which side of its mean each row was last, by as much as it varies: 1, -1 or, at first, 0, (r,).
        turns: How often that has changed recently, (r,); changes in smaller swings than today's count less.
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


def advance_record(
    old: Record, rows: Rows, losses: Tensor, corrected: Tensor, present: Tensor | None, step: Tensor | None = None
) -> Record:
    """Take in one step: training losses and corrected ones, (m,), of those present, (m,), bool; None for all.

    The number of the step, (), is known from when losses arrived last, except where these are only some of them.

    A row restarts from its last two values once it has settled at another level: within 400 steps its mean has moved by
    more than the values vary about it, which is a drift and neither noise nor a swing, and the last two values are near
    the mean. In a steady drift, where the means lag by 100 and 400 steps, the values are ahead by a third of the
    distance between the means, twice what counts as near.
    """
    has_arrived = present
    present, size = _usual(old.size, losses, present)
    corrected = corrected.clamp(-LARGEST, LARGEST)
    if present is None:
        here = torch.ones_like(losses)
    else:  # what is left out is multiplied by 0 and must not be inf
        here, losses = present.to(losses.dtype), losses.clamp(-LARGEST, LARGEST)
    seen = old.seen + here
    levels, misses = advance_levels(old.levels, losses, seen, here)
    errors = advance_errors(old.errors, misses.square(), seen, here)
    latest = corrected if present is None else torch.where(present, corrected, old.latest)
    step = old.arrived.amax(dim=-1, keepdim=True) + 1 if step is None else step
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
    is_settled = (moved > variance) & (now.square() + before[..., 0].square() < _NEAR**2 * moved) & (touched > 0)
    if _can_read(is_settled) and not bool(is_settled.any()):  # the usual case, and faster
        return new
    middle, half = (values + last) / 2, (values - last) / 2
    return replace(
        new,
        updates=torch.where(is_settled, 2.0, updates),
        mean=torch.where(is_settled, middle, mean),
        variance=torch.where(is_settled, half.square(), variance),
        covariance=torch.where(is_settled[..., None], 0.0, covariance),
        long_mean=torch.where(is_settled, middle, long_mean),
    )


def shift_record(record: Record, rows: Rows, old: Correction, new: Correction, is_metric: Tensor) -> Record:
    """Shift the statistics by what a measurement changes the corrected losses by; variances and trends stay.

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


def carry_record(record: Record, empty: Record, match: Tensor, by: Tensor) -> Record:
    """The record under another preference over the same losses.

    Args:
        record: Under the old one.
        empty: Before the first step under the new one.
        match: Which old row each new one continues, (r,); -1 for none.
        by: What the values of these rows change by, since their levels do, (r,).
    """
    kept = {name: take(getattr(record, name), getattr(empty, name), match) for name in PER_ROW}
    known = (kept["updates"] > 0) * by
    kept |= {name: kept[name] + known for name in ("mean", "long_mean")}
    return replace(record, **{**kept, "last": kept["last"] + known[..., None]})


def _usual(old: Tensor, losses: Tensor, present: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """Which losses (m,) are no outliers, None for all, and the largest recent sizes, (m,), from those before.

    A value of more than 100 times the largest recent size counts as missing. It multiplies that size by 100, which
    decays by as much in 100 values. So one outlier of any size leaves no trace; what happens more often than once in
    100 values counts in full, and so does a jump, one value later for every factor of 100.
    """
    now, limit = losses.abs(), _OUTLIER * old
    if present is None and _can_read(now) and bool((now <= limit).all()):  # the usual case, and faster
        return None, torch.maximum(now, _SIZE_KEPT * old)
    limit = torch.where(old > 0, limit, LARGEST)
    size = torch.maximum(torch.minimum(now, limit), _SIZE_KEPT * old)
    is_usual = now <= limit
    return (is_usual, size) if present is None else (present & is_usual, torch.where(present, size, old))


def _touched(rows: Rows, seen: Tensor, present: Tensor) -> Tensor:
    """1 for rows (r,) with a new value, once all their losses have arrived, else 0."""
    return (rows.B.name_only(seen > 0) & rows.B.name_any(present)).to(seen.dtype)


def standard_error(record: Record) -> Tensor:
    """The standard error of each row's mean as an estimate of the present value, (r,).

    Correlated successive values count as fewer; and where the mean drifts, the present is about a third of
    (mean - long mean) ahead of it: the two lag behind by 100 and 400 steps.
    """
    variance = record.variance.clamp(min=0)
    correlation = record.covariance[..., 0] / variance.clamp(min=torch.finfo(variance.dtype).tiny)
    correlation = correlation.clamp(min=0, max=0.98)
    return (variance / _count(record) * (1 + correlation) / (1 - correlation) + _ahead(record).square()).sqrt()


def swing(record: Record) -> Tensor:
    """How far each row's value oscillates with the model, one standard deviation, (r,).

    The part of the variance that successive values share (with either sign) is the model's, the rest is batch noise.
    Some of it may look shared by chance, and a steady drift adds the square of how far the present is ahead of the
    mean; both are subtracted. A move to another level, however abrupt, is no swing: a swing changes sides repeatedly,
    and each time by as much.
    """
    by_chance = (_BY_CHANCE / _count(record).sqrt()).clamp(max=0.9)
    shared = _shared(record) - by_chance * record.variance - _ahead(record).square()
    found = (shared.clamp(min=0) / (1 - by_chance)).sqrt()
    return torch.where(record.turns >= _TO_AND_FRO, found, 0.0)


def batch_noise(record: Record) -> Tensor:
    """One standard deviation of the part that successive values of each row do not share, (r,)."""
    return (record.variance - _shared(record)).clamp(min=0).sqrt()


def _count(record: Record) -> Tensor:
    """The effective number of values behind each mean, (r,)."""
    return (2 * record.updates - 1).clamp(min=1, max=2 * MEMORY - 1)


def _shared(record: Record) -> Tensor:
    """The part of each row's variance that successive values share, (r,)."""
    return record.covariance.abs().amax(dim=-1)


def _ahead(record: Record) -> Tensor:
    """How far each row's present value is ahead of its mean, in a steady drift, (r,)."""
    return (record.mean - record.long_mean) / 3


@cache
def _lags(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.arange(1, _LAGS + 1, dtype=dtype, device=device)


def _can_read(tensor: Tensor) -> bool:
    """Whether the host may read values; on a device that would be a host sync."""
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
        The levels, and the prediction error of each, both (..., WINDOWS, r).
    """
    misses = (values[..., None, :] - levels) * arrived[..., None, :]
    rates = torch.maximum(_rates(levels.dtype, levels.device), seen.clamp(min=1).reciprocal()[..., None, :])
    return torch.addcmul(levels, rates, misses), misses


def advance_errors(errors: Tensor, squares: Tensor, seen: Tensor, arrived: Tensor) -> Tensor:
    """Mean square prediction errors (..., WINDOWS, c); the first value, which has no prediction, is left out."""
    rate = arrived * (seen > 1) / (seen - 1).clamp(min=1, max=MEMORY)
    return torch.lerp(errors, squares, rate[..., None, :].expand_as(errors))


def best_level(levels: Tensor, window: Tensor) -> Tensor:
    """The level (..., r) over the window chosen for each number (..., r)."""
    return levels.gather(-2, window[..., None, :].expand_as(levels[..., :1, :]))[..., 0, :]


@cache
def _rates(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.exp2(-torch.arange(WINDOWS, dtype=dtype, device=device))[:, None]
