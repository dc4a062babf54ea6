"""The paper's problem, a concave front with plateaus all around it, and its sibling with three losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import pi, sqrt

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.problems.problem import HullProblem

__all__ = ["Exponential", "ExponentialThree", "draw_exponential_start"]

_STARTS = ("easy", "normal", "hard", "hard-mixed")


@dataclass(frozen=True)
class Exponential(HullProblem):
    """``f1 = s1 (1 - exp(-|theta - c|^2))`` and ``f2 = s2 (1 - exp(-|theta + c|^2))``.

    Every coordinate of c is 1/sqrt(q). Optimal are the points between c and -c, which are 2 apart. Far away
    both losses are flat at (s1, s2).

    Args:
        q: the number of parameters.
        scale: (s1, s2), the units of the losses.

    Attributes:
        centres: c and -c, (2, q).
    """

    name = "exponential"
    summary = "the paper's: concave front, plateaus"
    start_kinds = _STARTS

    q: int = 20
    scale: tuple[float, float] = (1.0, 1.0)
    centres: Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.q < 1 or min(self.scale) <= 0:
            raise InputError(f"q, scale: expected positive numbers, found {self.q} and {self.scale}.")
        c = torch.full((1, self.q), 1 / sqrt(self.q), dtype=torch.float64)
        object.__setattr__(self, "centres", torch.cat([c, -c]))

    @property
    def m(self) -> int:
        """Two."""
        return 2

    @property
    def n(self) -> int:
        """The number of parameters, q."""
        return self.q

    def __call__(self, theta: Tensor) -> Tensor:
        """The losses (2,) at theta (q,)."""
        c = 1 / sqrt(self.q)
        # expm1 would have no gradient on the plateau
        f1 = (1 - torch.exp(-(theta - c).square().sum())) * self.scale[0]
        f2 = (1 - torch.exp(-(theta + c).square().sum())) * self.scale[1]
        return torch.stack([f1, f2])

    @property
    def ideal(self) -> Tensor:
        """The origin."""
        return torch.zeros(2, dtype=torch.float64)

    @property
    def reference_point(self) -> Tensor:
        """The plateau."""
        return torch.tensor(self.scale, dtype=torch.float64)

    def rays(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Rays (count, 2) at uniform angles in [pi/20, 9 pi/20], in the losses' units; all are attainable."""
        share = torch.rand(count, generator=generator, dtype=torch.float64)
        angle = (0.05 + 0.4 * share) * pi
        vectors = torch.stack([angle.cos(), angle.sin()], dim=1) * self.reference_point
        return torch.nn.functional.normalize(vectors, dim=1)

    def _draw(self, kind: str, count: int, generator: torch.Generator | None) -> Tensor:
        return draw_exponential_start(kind, count, self.q, generator)


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
    start_kinds = _STARTS

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


def draw_exponential_start(kind: str, count: int, n: int, generator: torch.Generator | None) -> Tensor:
    """Starting points (count, n) of one family.

    easy: U[-0.3, 0.3]. normal: N(0, 1), on the plateau. hard: U[0.15, 0.5], with one random sign per run.
    hard-mixed: the same with one sign per coordinate.
    """
    if kind == "normal":
        return torch.randn(count, n, generator=generator, dtype=torch.float64)
    share = torch.rand(count, n, generator=generator, dtype=torch.float64)
    if kind == "easy":
        return 0.6 * share - 0.3
    signs = torch.rand(count, 1 if kind == "hard" else n, generator=generator, dtype=torch.float64)
    return (0.15 + 0.35 * share) * torch.where(signs < 0.5, -1.0, 1.0)
