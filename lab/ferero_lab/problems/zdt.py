"""ZDT1 and ZDT2 (Zitzler, Deb and Thiele 2000): two losses, a convex front and a concave one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from ferero_lab.problems.box import from_box, root_in_box, to_box
from ferero_lab.problems.problem import Problem

__all__ = ["ZDT1", "ZDT2"]


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
