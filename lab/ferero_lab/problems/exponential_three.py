"""The exponential problem's sibling with three losses."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.problems.exponential import EXPONENTIAL_STARTS, draw_exponential_start
from ferero_lab.problems.problem import HullProblem

__all__ = ["ExponentialThree"]


@dataclass(frozen=True)
class ExponentialThree(HullProblem):
    """``f_i = 1 - exp(-|theta - c_i|^2)`` for i = 1, 2, 3.

    c_i is sqrt(2) times the unit indicator of the i-th third of the coordinates. The centres are 2
    apart; optimal is the triangle between them.

    Args:
        q: the number of parameters, a multiple of three.

    Attributes:
        centres: the corners of the triangle, (3, q).
    """

    name = "exponential-three"
    summary = "its sibling: the image of a triangle"
    start_kinds = EXPONENTIAL_STARTS

    q: int = 30
    centres: Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.q < 3 or self.q % 3:
            raise InputError(f"q: expected a positive multiple of 3, found {self.q}.")
        third = self.q // 3
        indicators = torch.eye(3, dtype=torch.float64).repeat_interleave(third, dim=1)
        object.__setattr__(self, "centres", indicators * (2 / third) ** 0.5)

    @property
    def m(self) -> int:
        """Three."""
        return 3

    @property
    def n(self) -> int:
        """The number of parameters, q."""
        return self.q

    def __call__(self, theta: Tensor) -> Tensor:
        """The losses (3,) at theta (q,)."""
        squares: Tensor = (theta - self.centres.to(theta)).square().sum(dim=1)
        return 1 - torch.exp(-squares)  # expm1 has no gradient on the plateau

    @property
    def ideal(self) -> Tensor:
        """The origin."""
        return torch.zeros(3, dtype=torch.float64)

    @property
    def reference_point(self) -> Tensor:
        """The plateau."""
        return torch.ones(3, dtype=torch.float64)

    def _draw(self, kind: str, count: int, generator: torch.Generator | None) -> Tensor:
        return draw_exponential_start(kind, count, self.q, generator)
