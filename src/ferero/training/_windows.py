"""A running level of noisy numbers over the window that would have predicted them best, for the record.

No window is right for all: over a long one a level lags behind what still moves, over a short one it is as noisy as a
single value. Levels over windows of 1, 2, 4, ... run side by side, each is asked to predict the next value, and the one
with the smallest mean square error is believed. Noise without drift selects a long window, drift a short one.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

__all__ = ["COUNT", "LONGEST", "MEMORY", "advance_errors", "advance_levels", "best_level"]

COUNT = 6  # windows of 1, 2, 4, 8, 16 and 32 values
LONGEST = 2.0 ** (COUNT - 1)
MEMORY = 100.0  # steps over which prediction errors, and magnitudes, are averaged


def advance_levels(levels: Tensor, values: Tensor, seen: Tensor, arrived: Tensor) -> tuple[Tensor, Tensor]:
    """``level_j <- level_j + max(2^-j, 1 / seen) (value - level_j)`` where a value arrived.

    Args:
        levels: (..., COUNT, r).
        values: (..., r).
        seen: How many values have arrived, this one included, (..., r).
        arrived: 1 where one arrived now, else 0, (..., r).

    Returns:
        The levels, and what each failed to predict, both (..., COUNT, r).
    """
    misses = (values[..., None, :] - levels) * arrived[..., None, :]
    rates = torch.maximum(_rates(levels.dtype, levels.device), seen.clamp(min=1).reciprocal()[..., None, :])
    return torch.addcmul(levels, rates, misses), misses


def advance_errors(errors: Tensor, squares: Tensor, seen: Tensor, arrived: Tensor) -> Tensor:
    """Mean square prediction errors (..., COUNT, c), the first value (which nobody could predict) left out."""
    rate = arrived * (seen > 1) / (seen - 1).clamp(min=1, max=MEMORY)
    return torch.lerp(errors, squares, rate[..., None, :].expand_as(errors))


def best_level(levels: Tensor, window: Tensor) -> Tensor:
    """The level (..., r) over the window chosen for each number (..., r)."""
    return levels.gather(-2, window[..., None, :].expand_as(levels[..., :1, :]))[..., 0, :]


@cache
def _rates(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.exp2(-torch.arange(COUNT, dtype=dtype, device=device))[:, None]
