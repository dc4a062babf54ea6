"""Two problems of 20 parameters with known fronts, one concave and one convex, and noise for their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from ferero_lab.problems import Exponential
from ferero_lab.problems.exponential import draw_exponential_start

__all__ = ["DIMENSIONS", "Point", "ProblemName", "gradient_noise", "make_problem", "starts"]

ProblemName: TypeAlias = Literal["exponential", "quadratic"]
DIMENSIONS = 20
CONDITIONING = 10.0
FLOOR = 0.05  # without it the ends of the quadratic's front would lie on the axes


class Point(nn.Module):
    """A model that is nothing but its parameters theta (20,), float64, at U[-0.3, 0.3] first."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.theta = nn.Parameter(starts(1, seed)[0])


def starts(count: int, seed: int) -> Tensor:
    """Starting points (count, 20)."""
    return draw_exponential_start("easy", count, DIMENSIONS, torch.Generator().manual_seed(seed))


def make_problem(name: ProblemName) -> Callable[[Tensor], Tensor]:
    """The losses (2,) of theta (20,), or (..., 2) of (..., 20)."""
    return _exponential if name == "exponential" else _quadratic


def _exponential(theta: Tensor) -> Tensor:
    """As `Exponential`, for any leading dimensions."""
    return 1 - torch.exp(-_offsets(theta).square().sum(dim=-1))


def _quadratic(theta: Tensor) -> Tensor:
    """``f = sum_i d_i (theta_i -+ 1/sqrt(q))^2 + 0.05``, d from 0.1 to 1: a convex front with bent optima."""
    d = torch.logspace(-math.log10(CONDITIONING), 0, DIMENSIONS, dtype=theta.dtype)
    return (d * _offsets(theta).square()).sum(dim=-1) + FLOOR


def _offsets(theta: Tensor) -> Tensor:
    """Theta minus each of the two centres, (..., 2, 20)."""
    return theta[..., None, :] - _centres().to(theta)


@lru_cache(maxsize=1)
def _centres() -> Tensor:
    return Exponential(DIMENSIONS).centres


@lru_cache(maxsize=4)
def gradient_noise(size: float, steps: int, dimensions: int, seed: int) -> Tensor:
    """For each step and each of two losses a Gaussian vector of that length (root mean square), (steps, 2, q)."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    noise = torch.randn(steps, 2, dimensions, generator=generator, dtype=torch.float64)
    return noise * size / math.sqrt(dimensions)
