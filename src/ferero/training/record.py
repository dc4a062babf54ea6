"""What is remembered of losses and constraints for the report: means, spread, trend. Nothing here steers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ferero.methods import windows
from ferero.methods.rows import Rows

__all__ = ["Record", "advance_record", "standard_error", "swing", "tracked"]

_LONG = 4 * windows.MEMORY


@dataclass(frozen=True, eq=False)
class Record:
    """Running figures of m losses and r rows (values ``B F + b`` of the corrected losses).

    Attributes:
        seen: How often each loss has arrived, (m,).
        levels: Training values over every window, (windows, m).
        errors: Their mean square prediction errors, (windows, m).
        latest: The last corrected value, (m,).
        size: Running size of the corrected value, (m,).
        updates: How often each row was updated, (r,).
        last: The last value of each row, (r,).
        mean: Over about 100 updates, (r,).
        variance: About that mean, (r,).
        covariance: Of successive values, (r,).
        long_mean: Over about 400 updates, (r,).
        skipped: Batches left out because they were not finite, ().
    """

    seen: Tensor
    levels: Tensor
    errors: Tensor
    latest: Tensor
    size: Tensor
    updates: Tensor
    last: Tensor
    mean: Tensor
    variance: Tensor
    covariance: Tensor
    long_mean: Tensor
    skipped: Tensor

    @classmethod
    def empty(cls, m: int, r: int, batch: tuple[int, ...] = ()) -> Record:
        """Before the first step; of many models at once with leading dimensions."""

        def of(*shape: int) -> Tensor:
            return torch.zeros(batch + shape, dtype=torch.float64)

        return cls(
            of(m), of(windows.COUNT, m), of(windows.COUNT, m), of(m), of(m), of(r), of(r), of(r), of(r), of(r), of(r),
            of(),
        )  # fmt: skip


def tracked(record: Record) -> Tensor:
    """The training losses over the windows that predict them best, (m,)."""
    return windows.best_level(record.levels, record.errors.argmin(dim=-2))


def advance_record(old: Record, rows: Rows, losses: Tensor, corrected: Tensor, present: Tensor | None) -> Record:
    """Take in one step: training losses and corrected ones, (m,), of those present, (m,), bool; None for all."""
    here = torch.ones_like(losses) if present is None else present.to(losses.dtype)
    seen = old.seen + here
    levels, misses = windows.advance_levels(old.levels, losses, seen, here)
    errors = windows.advance_errors(old.errors, misses.square(), seen, here)
    latest = corrected if present is None else torch.where(present, corrected, old.latest)
    size = torch.lerp(old.size, latest.abs(), here / seen.clamp(min=1, max=windows.MEMORY))

    touched = rows.real if present is None else (rows.names & present).any(dim=-1).to(losses.dtype)
    updates = old.updates + touched
    values = rows.values(latest)
    rate = touched / updates.clamp(min=1, max=windows.MEMORY)
    away = values - old.mean
    mean = old.mean + rate * away
    variance = torch.lerp(old.variance, away * (values - mean), rate)
    covariance = torch.lerp(old.covariance, (old.last - mean) * (values - mean) * (updates > 1), rate)
    long_mean = torch.lerp(old.long_mean, values, touched / updates.clamp(min=1, max=_LONG))
    return Record(
        seen, levels, errors, latest, size, updates, values, mean, variance, covariance, long_mean, old.skipped
    )


def standard_error(record: Record) -> Tensor:
    """That of each row's mean as a figure for the present, (r,).

    Fewer effective values are counted where successive ones resemble each other; and where the mean drifts, the present
    is about a third of (mean - long mean) ahead of it: the two lag behind by 100 and 400 steps.
    """
    variance = record.variance.clamp(min=0)
    likeness = (record.covariance / variance.clamp(min=torch.finfo(variance.dtype).tiny)).clamp(min=0, max=0.98)
    count = (2 * record.updates - 1).clamp(min=1, max=2 * windows.MEMORY - 1)
    return (variance / count * (1 + likeness) / (1 - likeness) + _ahead(record).square()).sqrt()


def swing(record: Record) -> Tensor:
    """How far each row's value moves about with the model, one standard deviation, (r,).

    What successive batches share is the model's, what they do not is their noise; a steady drift is taken off: it
    makes the values vary by how far the present is ahead of their mean.
    """
    return (record.covariance - _ahead(record).square()).clamp(min=0).sqrt()


def _ahead(record: Record) -> Tensor:
    return (record.mean - record.long_mean) / 3
