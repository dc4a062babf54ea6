"""Problems on the box [0, 1]^n, by a smooth change of variables: ZDT1, ZDT2, DTLZ2 and convex DTLZ2.

``x = (1 + sin theta) / 2`` takes every real theta into the box, and both bounds are reached at finite theta,
where the derivative vanishes: an optimum at a bound becomes an ordinary stationary point, and a certificate
can reach zero.

ZDT: Zitzler, Deb and Thiele 2000. DTLZ2: Deb, Thiele, Laumanns and Zitzler 2005; its convex form: Deb and Jain 2014.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.problems.problem import Problem

__all__ = ["DTLZ2", "ZDT1", "ZDT2", "ConvexDTLZ2", "from_box", "root_in_box", "to_box"]


def to_box(theta: Tensor) -> Tensor:
    """``x = (1 + sin theta) / 2``, elementwise."""
    return (1 + theta.sin()) / 2


def root_in_box(theta: Tensor) -> Tensor:
    """``sqrt(x) = |sin(theta/2 + pi/4)|``, whose derivative stays finite at x = 0."""
    return (theta / 2 + pi / 4).sin().abs()


def from_box(x: Tensor) -> Tensor:
    """The theta in [-pi/2, pi/2] with ``to_box(theta) = x``."""
    return torch.arcsin(2 * x.clamp(0, 1) - 1)


@dataclass(frozen=True)
class _ZDT(Problem):
    """``f1 = x1``, ``f2 = g h(f1, g)``, ``g = 1 + 9 mean(x2..xn)``; optimal where x2..xn = 0."""

    start_kinds = ("uniform",)

    n: int = 30

    @property
    def m(self) -> int:
        """Two."""
        return 2

    def __call__(self, theta: Tensor) -> Tensor:
        """The losses (2,) at theta (n,), with x = (1 + sin theta) / 2."""
        f1 = to_box(theta[0])
        g = 1 + 9 * to_box(theta[1:]).mean()
        return torch.stack([f1, self._second(root_in_box(theta[0]), g)])

    @staticmethod
    @abstractmethod
    def _second(root: Tensor, g: Tensor) -> Tensor:
        """F2 from sqrt(x1) and g."""

    @property
    def ideal(self) -> Tensor:
        """The origin."""
        return torch.zeros(2, dtype=torch.float64)

    @property
    def reference_point(self) -> Tensor:
        """(1.1, 1.1)."""
        return torch.full((2,), 1.1, dtype=torch.float64)

    def _at_front(self, first: Tensor) -> Tensor:
        x = torch.zeros(len(first), self.n, dtype=first.dtype)
        x[:, 0] = first
        return from_box(x)

    def _draw(self, kind: str, count: int, generator: torch.Generator | None) -> Tensor:
        del kind
        return from_box(self._rand(count, generator))


@dataclass(frozen=True)
class ZDT1(_ZDT):
    """``f2 = g (1 - sqrt(f1 / g))``: the front is ``f2 = 1 - sqrt(f1)``, f1 in [0, 1].

    Args:
        n: the number of parameters; theta is real, x = (1 + sin theta) / 2.
    """

    name = "zdt1"
    summary = "ZDT1, convex front"

    @staticmethod
    def _second(root: Tensor, g: Tensor) -> Tensor:
        return g - g.sqrt() * root

    def solutions(self, shares: Tensor) -> Tensor:
        """X1 is the square of the first share."""
        return self._at_front(shares[:, 0].square())

    def image(self, shares: Tensor) -> Tensor:
        """(s^2, 1 - s) for the first share s."""
        return torch.stack([shares[:, 0].square(), 1 - shares[:, 0]], dim=1)


@dataclass(frozen=True)
class ZDT2(_ZDT):
    """``f2 = g (1 - (f1 / g)^2)``: the front is ``f2 = 1 - f1^2``, f1 in [0, 1].

    Args:
        n: the number of parameters; theta is real, x = (1 + sin theta) / 2.
    """

    name = "zdt2"
    summary = "ZDT2, concave front"

    @staticmethod
    def _second(root: Tensor, g: Tensor) -> Tensor:
        return g - root**4 / g

    def solutions(self, shares: Tensor) -> Tensor:
        """X1 is the first share."""
        return self._at_front(shares[:, 0])

    def image(self, shares: Tensor) -> Tensor:
        """(s, 1 - s^2) for the first share s."""
        return torch.stack([shares[:, 0], 1 - shares[:, 0].square()], dim=1)


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
