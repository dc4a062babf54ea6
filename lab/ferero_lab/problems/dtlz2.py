"""DTLZ2 (Deb, Thiele, Laumanns and Zitzler 2005) and its convex form (Deb and Jain 2014), for any m."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.problems.box import from_box, to_box
from ferero_lab.problems.problem import Problem

__all__ = ["DTLZ2", "ConvexDTLZ2"]


@dataclass(frozen=True)
class DTLZ2(Problem):
    """``F = (1 + g) u``: the first m - 1 parameters turn the unit vector u, the others make g.

    ``f_1 = (1 + g) cos(x1 pi/2) ... cos(x_{m-1} pi/2)`` and so on to ``f_m = (1 + g) sin(x1 pi/2)``, with
    ``g = sum (x_j - 1/2)^2`` over j >= m. The front is the part of the unit sphere with no negative
    coordinate.

    Args:
        m: the number of losses, at least 2.
        distance_parameters: how many parameters only g depends on.
    """

    name = "dtlz2"
    summary = "DTLZ2, spherical front"
    start_kinds = ("uniform",)

    m: int = 3
    distance_parameters: int = 10

    def __post_init__(self) -> None:
        if self.m < 2 or self.distance_parameters < 1:
            raise InputError(
                f"m, distance_parameters: expected 2, 1 or more, found {self.m}, {self.distance_parameters}."
            )

    @property
    def n(self) -> int:
        """The angles and the distance parameters."""
        return self.m - 1 + self.distance_parameters

    def __call__(self, theta: Tensor) -> Tensor:
        """The losses (m,) at theta (n,), with x = (1 + sin theta) / 2."""
        return self._on_sphere(theta)

    def _on_sphere(self, theta: Tensor) -> Tensor:
        x = to_box(theta)
        angles = x[: self.m - 1] * (pi / 2)
        one = torch.ones_like(angles[:1])
        cosines = torch.cat([one, angles.cos().cumprod(dim=0)]).flip(0)
        sines = torch.cat([one, angles.sin().flip(0)])
        return (1 + (x[self.m - 1 :] - 0.5).square().sum()) * cosines * sines

    def solutions(self, shares: Tensor) -> Tensor:
        """Each share is the square of its loss's coordinate on the sphere."""
        u = shares.sqrt()
        rest = u.square().cumsum(dim=1).sqrt()
        angles = torch.atan2(u[:, 1:], rest[:, :-1]).flip(1)
        middle = torch.full((len(shares), self.distance_parameters), 0.5, dtype=shares.dtype)
        return from_box(torch.cat([angles * (2 / pi), middle], dim=1))

    def image(self, shares: Tensor) -> Tensor:
        """The shares' square roots."""
        return shares.sqrt()

    def distance_to_front(self, losses: Tensor) -> Tensor:
        """Distances (...) in closed form: the nearest point is the positive part, normalised."""
        points = losses.detach().to(torch.float64)
        corner = torch.nn.functional.one_hot(points.argmax(dim=-1), self.m).to(points)
        positive = torch.where((points > 0).any(dim=-1, keepdim=True), points.clamp(min=0), corner)
        nearest = torch.nn.functional.normalize(positive, dim=-1)
        return (points - nearest).square().sum(dim=-1).sqrt()

    @property
    def ideal(self) -> Tensor:
        """The origin."""
        return torch.zeros(self.m, dtype=torch.float64)

    @property
    def reference_point(self) -> Tensor:
        """1.1 everywhere."""
        return torch.full((self.m,), 1.1, dtype=torch.float64)

    def _draw(self, kind: str, count: int, generator: torch.Generator | None) -> Tensor:
        del kind
        return from_box(self._rand(count, generator))


@dataclass(frozen=True)
class ConvexDTLZ2(DTLZ2):
    """DTLZ2 with ``f_i^4`` in place of ``f_i`` for i < m, and ``f_m^2`` in place of ``f_m``.

    The front is ``sum_{i<m} sqrt(f_i) + f_m = 1``.

    Args:
        m: the number of losses, at least 2.
        distance_parameters: how many parameters only g depends on.
    """

    name = "dtlz2-convex"
    summary = "convex DTLZ2, flat towards the corners"

    def __call__(self, theta: Tensor) -> Tensor:
        """The losses (m,) at theta (n,), with x = (1 + sin theta) / 2."""
        squares = self._on_sphere(theta).square()
        return torch.cat([squares[:-1].square(), squares[-1:]])

    def image(self, shares: Tensor) -> Tensor:
        """The shares' squares, and the last share."""
        return torch.cat([shares[:, :-1].square(), shares[:, -1:]], dim=1)

    def distance_to_front(self, losses: Tensor) -> Tensor:
        """Distances (...) by refinement from a lattice."""
        return Problem.distance_to_front(self, losses)
