"""Convex quadratics for any number of losses, with a known front."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ferero.errors import InputError
from ferero_lab.problems.problem import HullProblem

__all__ = ["ConvexQuadratics"]


@dataclass(frozen=True)
class ConvexQuadratics(HullProblem):
    """``f_i = s_i |theta - c_i|^2 / n`` with random centres c_i.

    All Hessians are alike, so that optima are the centres' hull.

    Args:
        m: the number of losses.
        n: the number of parameters.
        scale: (s_1, ..., s_m), the units of the losses; None is 1 for each.
        seed: of the centres, standard normal.

    Attributes:
        centres: where each loss is smallest, (m, n).
    """

    name = "quadratics"
    summary = "convex quadratics of any size"
    start_kinds = ("normal",)

    m: int = 3
    n: int = 10
    scale: tuple[float, ...] | None = None
    seed: int = 0
    centres: Tensor = field(init=False, repr=False, compare=False)
    _scale: Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.m < 1 or self.n < 1:
            raise InputError(f"m, n: expected positive integers, found {self.m} and {self.n}.")
        if self.scale is not None and (len(self.scale) != self.m or min(self.scale) <= 0):
            raise InputError(f"scale: expected {self.m} positive numbers, found {self.scale}.")
        generator = torch.Generator().manual_seed(self.seed)
        centres = torch.randn(self.m, self.n, generator=generator, dtype=torch.float64)
        object.__setattr__(self, "centres", centres)
        object.__setattr__(self, "_scale", torch.tensor(self.scale or (1.0,) * self.m, dtype=torch.float64))

    def __call__(self, theta: Tensor) -> Tensor:
        """The losses (m,) at theta (n,)."""
        return (theta - self.centres.to(theta)).square().mean(dim=1) * self._scale.to(theta)

    @property
    def ideal(self) -> Tensor:
        """The origin."""
        return torch.zeros(self.m, dtype=torch.float64)

    @property
    def reference_point(self) -> Tensor:
        """A tenth beyond each loss's largest value at another's centre."""
        return 1.1 * torch.func.vmap(self)(self.centres).amax(dim=0) + (self.m == 1)

    def _draw(self, kind: str, count: int, generator: torch.Generator | None) -> Tensor:
        del kind
        return torch.randn(count, self.n, generator=generator, dtype=torch.float64)
