"""Values measured outside training (held-out losses, metrics) as corrections of the training values.

A measured value is out of date after the next step, and feeding back old values makes training oscillate. So it never
replaces the training value f: it corrects f, and the correction is kept.

    held-out loss, same units:   f + offset          offset = measured - f, at the moment of measuring
    metric, other units:         gain f + offset     gain = |measured / f| at first, then offset moves by half of what
                                                     is missing: an outer, slow integral on the surrogate's threshold
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_SLOWLY = 0.5


@dataclass(frozen=True, eq=False)
class Correction:
    """``gain f + offset`` for each of m losses, all (m,).

    Attributes:
        gain: 1 for losses that are not metrics.
        offset: 0 until something was measured.
        observed: How often each was measured.
    """

    gain: Tensor
    offset: Tensor
    observed: Tensor

    @classmethod
    def none(cls, *shape: int) -> Correction:
        """No correction, (m,); of many models at once (K, m)."""
        zeros = torch.zeros(shape, dtype=torch.float64)
        return cls(torch.ones_like(zeros), zeros, zeros.clone())

    def apply(self, losses: Tensor) -> Tensor:
        """The corrected losses, (m,)."""
        return self.gain * losses + self.offset

    def weights(self, of_corrected: Tensor) -> Tensor:
        """The losses' own weights, (m,), from those of the corrected ones; a gain never makes their sum larger."""
        found = of_corrected * self.gain
        before, after = (w.abs().sum(dim=-1, keepdim=True) for w in (of_corrected, found))
        return found * (before / after.clamp(min=torch.finfo(found.dtype).tiny)).clamp(max=1.0)


def correct(old: Correction, measured: Tensor, arrived: Tensor, tracked: Tensor, is_metric: Tensor) -> Correction:
    """Take in measured values.

    Args:
        old: The correction so far.
        measured: (m,).
        arrived: Which of them were measured now, (m,), bool.
        tracked: The training values at that moment, (m,).
        is_metric: Which are metrics in units of their own, (m,), bool.
    """
    is_first = old.observed == 0
    ratio = measured.abs() / tracked.abs()
    ratio = torch.where(torch.isfinite(ratio) & (ratio > 0), ratio, torch.ones_like(ratio))
    gain = torch.where(arrived & is_metric & is_first, ratio, old.gain)
    whole = measured - gain * tracked
    slow = old.offset + _SLOWLY * (whole - old.offset)
    offset = torch.where(is_metric & ~is_first, slow, whole)
    return Correction(gain, torch.where(arrived, offset, old.offset), old.observed + arrived)
