"""Many dual programs of one shape as tensors: the form that all solvers in torch take, and its certificate.

Nothing here looks at a value on the host, so that a thousand programs cost as many kernel launches as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ferero.subprogram._program import EPSILON, MANY

__all__ = ["Programs", "Scaled"]

TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True, eq=False)
class Programs:
    """P dual programs, each as :class:`~ferero.subprogram.Program` has it.

    Rows of zeros are padding, whose multipliers stay 0.

    Attributes:
        rows: S, (P, k, m).
        gramian: K, (P, m, m).
        linear: q, (P, k).
        simplex: a, (P, k_f).
        total: b, (P,).
        equalities: How many of the last rows are equalities, the same in all programs.
        bound: rho, a number or (P,); infinite unless the form is elastic.
    """

    rows: Tensor
    gramian: Tensor
    linear: Tensor
    simplex: Tensor
    total: Tensor
    equalities: int = 0
    bound: Tensor | float = torch.inf

    @cached_property
    def quadratic(self) -> Tensor:
        """Q, (P, k, k)."""
        return torch.bmm(torch.bmm(self.rows, self.gramian), self.rows.mT)

    @cached_property
    def lengths(self) -> Tensor:
        """The norm of each row's gradient, (P, k)."""
        return self.quadratic.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt()

    @cached_property
    def a(self) -> Tensor:
        """``a / b`` continued by zeros, (P, k)."""
        share = self.simplex / self.total[:, None]
        constraints = self.linear.shape[-1] - self.simplex.shape[-1]
        return torch.nn.functional.pad(share, (0, constraints)) if constraints else share

    @cached_property
    def lower(self) -> Tensor:
        """Lower bounds of the multipliers, (P, k)."""
        out = torch.zeros_like(self.linear)
        if self.equalities:
            out[:, -self.equalities :] = -self._rho
        return out

    @cached_property
    def upper(self) -> Tensor:
        """Upper bounds of the multipliers, (P, k)."""
        out = torch.full_like(self.linear, torch.inf)
        out[:, self.simplex.shape[-1] :] = self._rho
        return out

    @property
    def _rho(self) -> Tensor | float:
        return self.bound[:, None] if isinstance(self.bound, Tensor) else self.bound

    @cached_property
    def rounding(self) -> Tensor:
        """The rounding of a direction with the longest admissible gradient in it, (P, 1)."""
        k, k_f = self.linear.shape[-1], self.simplex.shape[-1]
        ends = self.lengths[:, :k_f] / self.a[:, :k_f]
        longest = ends.nan_to_num(nan=0.0, posinf=0.0).amax(dim=-1, keepdim=True)
        return k * EPSILON * longest

    @cached_property
    def is_idle(self) -> Tensor:
        """Rows (P, k) whose multiplier stays 0: no gradient and nothing (finite) to win, or no room."""
        has_gain = (self.linear > 0) & (self.upper < torch.inf) | (self.linear < 0) & (self.lower < 0)
        is_empty = (self.lengths == 0) & (self.a == 0) & ~(has_gain & self.lower.isfinite())
        return is_empty | (self.upper <= 0)

    @property
    def uniform(self) -> Tensor:
        """Equal multipliers for the order's rows, 0 for constraints and padding, (P, k): in the domain."""
        is_used = (self.rows != 0).any(dim=-1) & (
            torch.arange(self.linear.shape[-1], device=self.rows.device) < self.simplex.shape[-1]
        )
        return is_used / self.a.sum(dim=-1, keepdim=True)

    def slack(self, lam: Tensor) -> Tensor:
        """``q - Q lam - c a / b``, what the direction leaves of each primal row, (..., P, k)."""
        k_f = self.simplex.shape[-1]
        left = self.linear - (self.quadratic @ lam[..., None])[..., 0]
        c = (lam[..., :k_f] * left[..., :k_f]).sum(dim=-1, keepdim=True)
        return torch.addcmul(left, c, self.a, value=-1)

    def uncancelled(self, lam: Tensor) -> Tensor:
        """``sum_i |lam_i| |S_i gradF|``, (..., P, 1), as :meth:`Program.uncancelled` has it."""
        return torch.maximum((lam.abs() * self.lengths).sum(dim=-1, keepdim=True), self.rounding)

    def residual(self, lam: Tensor) -> Tensor:
        """The worst relative violation of the optimality conditions, as :meth:`Program.residual` defines it.

        Args:
            lam: (..., P, k).

        Returns:
            (..., P), not a number where ``lam`` is not.
        """
        size, q = lam.abs(), self.linear.abs()
        length = self.uncancelled(lam)
        left = self.slack(lam)
        slack = left.abs()
        relative = slack / torch.addcmul(q, self.lengths, length).clamp(min=TINY)
        room = torch.where(left > 0, self.upper - lam, lam - self.lower).clamp(max=MANY)
        gap = slack * room / (length * length + (q * size).sum(dim=-1, keepdim=True)).clamp(min=TINY)
        beyond = torch.maximum(self.lower - lam, lam - self.upper).amax(dim=-1).clamp(min=0.0)
        missing = ((self.a * lam).sum(dim=-1) - 1.0).abs()
        outside = torch.maximum(missing, beyond / size.amax(dim=-1).clamp(min=TINY))
        return torch.maximum(torch.minimum(relative, gap).amax(dim=-1), outside)

    def feasible(self, lam: Tensor) -> Tensor:
        """``lam`` clipped to its bounds, the order's part rescaled to its sum, (..., P, k)."""
        clipped = torch.minimum(torch.maximum(lam, self.lower), self.upper)
        reached = (self.a * clipped).sum(dim=-1, keepdim=True)
        rescaled = torch.where(reached > 0, clipped / reached, clipped)
        k_f = self.simplex.shape[-1]
        return torch.cat([rescaled[..., :k_f], clipped[..., k_f:]], dim=-1)

    def scaled(self) -> Scaled:
        """The same programs in ``mu = lam / unit``, where every entry is at most about one.

        With a direction's typical length L, as the exact solver's: ``unit_i`` is one over the larger of
        ``hypot(|S_i gradF| / L, a_i)`` and ``|q_i| / L^2``.
        """
        lengths, k_f = self.lengths, self.simplex.shape[-1]
        unmet = self.linear.clamp(min=0.0)
        if self.equalities:
            unmet[:, -self.equalities :] = self.linear[:, -self.equalities :].abs()
        wanted = torch.where(lengths > 0, unmet / lengths, 0.0).amax(dim=-1)
        order = self.a[:, :k_f]
        ends = torch.where(order > 0, lengths[:, :k_f] / order, torch.inf).amin(dim=-1)
        payable = (lengths * self.upper.clamp(max=MANY))[:, k_f:].sum(dim=-1)
        typical = torch.maximum(torch.minimum(wanted, payable + ends), ends)
        typical = torch.where((typical > 0) & typical.isfinite(), typical, 1.0)[:, None]
        squared = typical * typical
        size = torch.maximum(torch.hypot(lengths / typical, self.a), self.linear.abs() / squared)
        unit = torch.where(size > 0, 1.0 / size, 1.0)
        return Scaled(
            quadratic=self.quadratic * (unit / squared)[:, :, None] * unit[:, None, :],
            linear=self.linear * unit / squared,
            a=self.a * unit,
            lower=self.lower / unit,
            upper=self.upper / unit,
            unit=unit,
        )


@dataclass(frozen=True, eq=False)
class Scaled:
    """Programs in scaled multipliers: minimise ``mu.Q mu / 2 - q.mu``, ``a.mu = 1``, within bounds.

    Attributes:
        quadratic: (P, k, k).
        linear: (P, k).
        a: (P, k), zero for constraints.
        lower: (P, k).
        upper: (P, k).
        unit: (P, k), ``lam = unit mu``.
    """

    quadratic: Tensor
    linear: Tensor
    a: Tensor
    lower: Tensor
    upper: Tensor
    unit: Tensor
