"""Box constraints by a smooth change of variables, for problems that are stated on [0, 1]^n.

``x = (1 + sin theta) / 2`` takes every real theta into the box, and both bounds are reached at finite theta,
where the derivative vanishes: an optimum at a bound becomes an ordinary stationary point, and a certificate
can reach zero.
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor

__all__ = ["from_box", "root_in_box", "to_box"]


def to_box(theta: Tensor) -> Tensor:
    """``x = (1 + sin theta) / 2``, elementwise."""
    return (1 + theta.sin()) / 2


def root_in_box(theta: Tensor) -> Tensor:
    """``sqrt(x) = |sin(theta/2 + pi/4)|``, whose derivative stays finite at x = 0."""
    return (theta / 2 + pi / 4).sin().abs()


def from_box(x: Tensor) -> Tensor:
    """The theta in [-pi/2, pi/2] with ``to_box(theta) = x``."""
    return torch.arcsin(2 * x.clamp(0, 1) - 1)
