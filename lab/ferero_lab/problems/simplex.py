"""Points of the unit simplex: the parameters by which every front in this folder is described."""

from __future__ import annotations

from itertools import combinations
from math import comb

import torch
from torch import Tensor

__all__ = ["lattice", "uniform"]


def lattice(m: int, k: int) -> Tensor:
    """The coarsest simplex lattice of at least k points, corners included.

    Returns:
        Non-negative rows that sum to 1, (k or more, m), float64; exactly k for m = 2.

    Example:
        >>> lattice(2, 3).tolist()
        [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    if m == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    steps = 1
    while comb(steps + m - 1, m - 1) < k:
        steps += 1
    bars = torch.tensor(list(combinations(range(steps + m - 1), m - 1)), dtype=torch.float64)
    ends = torch.full((len(bars), 1), -1.0, dtype=torch.float64)
    edges = torch.cat([ends, bars, ends + (steps + m)], dim=1)
    return (edges.diff(dim=1) - 1) / steps


def uniform(m: int, count: int, generator: torch.Generator | None = None) -> Tensor:
    """Points drawn uniformly from the simplex, (count, m), float64."""
    exponential = -torch.rand(count, m, generator=generator, dtype=torch.float64).clamp_min(1e-300).log()
    return exponential / exponential.sum(dim=1, keepdim=True)
