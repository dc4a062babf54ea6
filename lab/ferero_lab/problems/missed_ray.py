"""A problem one of whose rays meets no attainable losses at all."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi, sin

import torch
from torch import Tensor

from ferero_lab.problems.box import from_box, to_box
from ferero_lab.problems.problem import Problem

__all__ = ["MissedRay"]

_FIRST, _LAST, _RAY = pi / 6, pi / 3, pi / 12


@dataclass(frozen=True)
class MissedRay(Problem):
    """``F = (1 + |theta_2..n|^2) (cos phi, sin phi)``, where theta_1 moves phi between 30 and 60 degrees.

    Whatever theta is, F has an angle between 30 and 60 degrees and a length of at least 1, so a ray at 15
    degrees is met nowhere: not on the front, not off it. Its distance from F is ``|F| sin(phi - 15)``,
    smallest at the front's end ``phi = 30, |F| = 1``. The front is the unit circle's arc between them.

    Args:
        n: the number of parameters, at least 2.
    """

    name = "missed-ray"
    summary = "an arc that its ray misses: unattainable"
    start_kinds = ("normal",)

    n: int = 5

    @property
    def m(self) -> int:
        """Two."""
        return 2

    def __call__(self, theta: Tensor) -> Tensor:
        """The losses (2,) at theta (n,); ``phi = pi/6 + (pi/6) (1 + sin theta_1) / 2``."""
        phi = _FIRST + (_LAST - _FIRST) * to_box(theta[0])
        return (1 + theta[1:].square().sum()) * torch.stack([phi.cos(), phi.sin()])

    @property
    def ray(self) -> Tensor:
        """The unit vector (2,) that cannot be met."""
        return torch.tensor([cos(_RAY), sin(_RAY)], dtype=torch.float64)

    @property
    def closest(self) -> Tensor:
        """The attainable losses (2,) nearest to it."""
        return torch.tensor([cos(_FIRST), sin(_FIRST)], dtype=torch.float64)

    @property
    def violation(self) -> float:
        """The distance between the two: sin 15 degrees."""
        return sin(_FIRST - _RAY)

    def solutions(self, shares: Tensor) -> Tensor:
        """The second share is how far phi is along the arc."""
        rest = torch.zeros(len(shares), self.n - 1, dtype=shares.dtype)
        return torch.cat([from_box(shares[:, 1:]), rest], dim=1)

    def image(self, shares: Tensor) -> Tensor:
        """The arc."""
        phi = _FIRST + (_LAST - _FIRST) * shares[:, 1]
        return torch.stack([phi.cos(), phi.sin()], dim=1)

    @property
    def ideal(self) -> Tensor:
        """The arc's ends give one coordinate each, (1/2, 1/2)."""
        return torch.tensor([cos(_LAST), sin(_FIRST)], dtype=torch.float64)

    @property
    def reference_point(self) -> Tensor:
        """(1, 1)."""
        return torch.ones(2, dtype=torch.float64)

    def _draw(self, kind: str, count: int, generator: torch.Generator | None) -> Tensor:
        del kind
        return torch.randn(count, self.n, generator=generator, dtype=torch.float64)
