"""What solving the subprogram returns: a direction in the space of losses, with its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import Tensor

__all__ = ["Solution", "Status"]

Status: TypeAlias = Literal["optimal", "unbounded"]


@dataclass(frozen=True, eq=False)
class Solution:
    """The subprogram's solution; float64 tensors with the batch dimensions of the call.

    Weights, slopes, c and psi are unique. Multipliers are not: ``[A; B_g; B_h]`` has more rows than losses.

    Attributes:
        weights: ``w = A^T lam_f + B_g^T lam_g + B_h^T lam_h``, (..., m); the direction is ``d = -gradF w``.
        multipliers: ``[lam_f; lam_g; lam_h]``, (..., k).
        slopes: ``gradF^T d = -K w``, (..., m): negative where a loss falls.
        c: The primal's c, (...).
        psi: ``c + |d|^2 / 2``, (...): minus the dual's minimum, less the price of what a bound leaves unmet.
        residual: The worst relative violation of the optimality conditions, (...).
        status: "optimal", or "unbounded" where the linearised constraints contradict each other; for a batch
            a tuple of them, in row-major order.
        solver: Who found the multipliers.
        sizes: The numbers of rows (k_f, m_g, m_h).
    """

    weights: Tensor
    multipliers: Tensor
    slopes: Tensor
    c: Tensor
    psi: Tensor
    residual: Tensor
    status: Status | tuple[Status, ...]
    solver: str
    sizes: tuple[int, int, int]

    @property
    def lam_f(self) -> Tensor:
        """Multipliers of the order's rows, (..., k_f)."""
        return self.multipliers[..., : self.sizes[0]]

    @property
    def lam_g(self) -> Tensor:
        """Multipliers of the inequalities, (..., m_g), not negative."""
        return self.multipliers[..., self.sizes[0] : self.sizes[0] + self.sizes[1]]

    @property
    def lam_h(self) -> Tensor:
        """Multipliers of the equalities, (..., m_h), of any sign."""
        return self.multipliers[..., self.sizes[0] + self.sizes[1] :]
