"""Sees a violation that swings to and fro without dying out, and calms the integral that drives it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ferero.methods.rows import Metric
from ferero.methods.windows import MEMORY

__all__ = ["ENOUGH", "Swings", "advance_swings"]

ENOUGH = 6  # half swings in a row that make an oscillation
_VISIBLE = 0.02  # relative violation below which nobody minds
_ALIKE = 1.25  # largest ratio of two half swings of one oscillation; noise is less regular
_FAR_ENOUGH = 0.25  # share of the last half swing to come out on the other side by, before it counts as a turn
_CALMER, _CALMEST = 0.7, 0.05
_RECOVERY = 1000.0  # steps in which the gain comes back once nothing swings


@dataclass(frozen=True, eq=False)
class Swings:
    """What is known of swings in c channels of r rows.

    Attributes:
        anchor: The largest deviation since the last change of sides, (..., r).
        peak: The size of the half swing before, (..., c).
        count: Half swings in a row that were alike, (..., c).
        calm: The factor on the integral gain, (..., c).
    """

    anchor: Tensor
    peak: Tensor
    count: Tensor
    calm: Tensor


def advance_swings(old: Swings, level: Tensor, noise: Tensor, metric: Metric) -> Swings:
    """Compare the deviation with the largest one on this side; on a change of sides, judge the half swing that ended.

    A half swing counts when it is visible, above the noise and within a quarter of the one before. From `ENOUGH` of
    them on, each multiplies the integral gain by 0.7; an irregular one starts the count anew, and then the gain slowly
    comes back.

    Args:
        old: What was seen so far.
        level: Denoised values of the rows, (..., r).
        noise: Relative variance of single values, (..., c).
        metric: The sizes of the rows.
    """
    anchor = old.anchor * (1 - 1 / MEMORY)  # a swing that ended is forgotten
    squares = metric.squares(torch.stack([level, anchor, level + anchor], dim=-2))
    here, there, of_sum = squares.unbind(dim=-2)
    is_across = of_sum < here + there  # a negative inner product
    turned = is_across & (here > _FAR_ENOUGH**2 * there)
    size = there.sqrt()
    is_alike = (size < _ALIKE * old.peak) & (old.peak < _ALIKE * size)
    lasts = is_alike & (size > _VISIBLE) & (there > noise)
    count = torch.where(turned, (old.count + 1) * lasts, old.count * (size > _VISIBLE))
    calmer = torch.where(turned & (count >= ENOUGH), (old.calm * _CALMER).clamp(min=_CALMEST), old.calm)
    calm = torch.where(count == 0, calmer + (1 - calmer) / _RECOVERY, calmer)
    renew = metric.rows.by_row(turned | (~is_across & (here > there)))
    return Swings(torch.where(renew, level, anchor), torch.where(turned, size, old.peak), count, calm)
