"""The subprogram's dual as a small quadratic program, and the certificate that any answer to it can be held to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ferero.errors import InputError

__all__ = ["Array", "Domain", "Program", "simplex_of"]

Array = NDArray[np.float64]
Domain = Literal["adaptive", "simplex"]
MANY = 1e100  # stands for an infinite distance where it is multiplied by zero
EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Program:
    """One dual program: minimise ``1/2 lam.Q lam - q.lam`` over ``lam_f >= 0``, ``a.lam_f = b``, ``0 <= lam_g <= rho``,
    ``|lam_h| <= rho``.

    ``Q = S K S^T`` with the stacked rows ``S = [A; B_g; B_h]`` and the gramian K. Its dual in turn is the primal of the
    paper: minimise ``c + |d|^2 / 2`` with ``S_i gradF^T d + q_i <= c a_i / b`` (``= 0`` for the last rows), where rho
    is the price of a unit of violation.

    Attributes:
        rows: S, (k, m): those of the order, of the inequalities, of the equalities.
        gramian: K, (m, m), symmetric positive semidefinite.
        linear: q, (k,): zero for the order's rows (or their current values), ``c_g G``, ``c_h H``.
        simplex: a, (k_f,), non-negative; its length is the number of the order's rows.
        total: b, positive.
        equalities: how many of the last rows are equalities.
        bound: rho, infinite unless the form is elastic.
    """  # noqa: D205

    rows: Array
    gramian: Array
    linear: Array
    simplex: Array
    total: float
    equalities: int = 0
    bound: float = np.inf

    @cached_property
    def quadratic(self) -> Array:
        """Q, (k, k)."""
        Q = self.rows @ self.gramian @ self.rows.T
        return 0.5 * (Q + Q.T)

    @cached_property
    def lengths(self) -> Array:
        """The norm of each row's gradient, (k,)."""
        return np.sqrt(np.maximum(self.quadratic.diagonal(), 0.0))

    @cached_property
    def a(self) -> Array:
        """``a / b`` continued by zeros, (k,): how much of c each row of the primal is granted."""
        out = np.zeros(len(self.linear))
        out[: len(self.simplex)] = self.simplex / self.total
        return out

    @cached_property
    def lower(self) -> Array:
        """Lower bounds of the multipliers, (k,)."""
        out = np.zeros(len(self.linear))
        out[len(out) - self.equalities :] = -self.bound
        return out

    @cached_property
    def upper(self) -> Array:
        """Upper bounds of the multipliers, (k,)."""
        out = np.full(len(self.linear), np.inf)
        out[len(self.simplex) :] = self.bound
        return out

    @cached_property
    def shortest(self) -> float:
        """A direction shorter than this is zero: the rounding of a sum with the longest admissible gradient in it."""
        k_f = len(self.simplex)
        longest = (self.lengths[:k_f] / np.where(self.a[:k_f] > 0, self.a[:k_f], np.inf)).max(initial=0.0)
        return len(self.linear) * EPSILON * float(longest)

    def weights(self, lam: Array) -> Array:
        """``w = S^T lam``, (m,)."""
        return lam @ self.rows

    def rate(self, lam: Array) -> float:
        """The primal's c that belongs to the multipliers: ``lam_f.(q - Q lam)_f``."""
        k_f = len(self.simplex)
        return float(lam[:k_f] @ (self.linear - self.quadratic @ lam)[:k_f])

    def slack(self, lam: Array) -> Array:
        """``q - Q lam - c a / b``, (k,): what the direction leaves of each row of the primal; feasible if <= 0."""
        k_f = len(self.simplex)
        left = self.linear - self.quadratic @ lam
        return left - float(lam[:k_f] @ left[:k_f]) * self.a

    def residual(self, lam: Array) -> float:
        """The worst relative violation of the optimality conditions by ``lam``, none of them cancelled away.

        Where a row of the primal is not met, or met with room to spare, its multiplier must be at a bound: the slack is
        measured against ``|S_i gradF| D + |q_i|``, slack times distance to the bound against ``D^2 + |q|.|lam|``, and
        the smaller counts. ``D = sum_i |lam_i| |S_i gradF|`` is the direction's length if nothing cancelled.
        """
        size = np.abs(lam)
        uncancelled = max(float(size @ self.lengths), self.shortest)
        q = np.abs(self.linear)
        scale = self.lengths * uncancelled + q
        gap_scale = uncancelled**2 + float(q @ size)
        left = self.slack(lam)
        room = np.where(left > 0, self.upper - lam, lam - self.lower)
        slack = np.abs(left)
        relative = slack / np.where(scale > 0, scale, 1.0)
        gap = slack * np.minimum(room, MANY) / (gap_scale or 1.0)
        return max(float(np.minimum(relative, gap).max()), self._outside(lam, size))

    def _outside(self, lam: Array, size: Array) -> float:
        """How far ``lam`` is from its domain, relative to its own size."""
        beyond = float(np.maximum(self.lower - lam, lam - self.upper).max())
        total = abs(float(self.a @ lam) - 1.0) if len(self.simplex) else 0.0
        return max(total, beyond / float(size.max()) if beyond > 0 else 0.0)

    def feasible(self, lam: Array) -> Array:
        """``lam`` clipped to its bounds, the order's part rescaled to its sum."""
        clipped = np.minimum(np.maximum(lam, self.lower), self.upper)
        reached = float(self.a @ clipped)
        if reached > 0:
            clipped[: len(self.simplex)] /= reached
        return clipped


def simplex_of(order_losses: Array, order: Array, domain: Domain) -> tuple[Array, Array]:
    """The domain's vector and total: ``a.lam_f = b``.

    Args:
        order_losses: A F, (..., k).
        order: A, (..., k, m); rows of zeros (padding) take no part.
        domain: "adaptive" for a = A F, b = sum(A F); "simplex" for a = 1, b = 1.

    Returns:
        a (..., k) and b (...).

    Raises:
        InputError: the adaptive domain with a negative entry or no positive one.
    """
    if domain == "simplex":
        a = (order != 0).any(axis=-1).astype(np.float64)
        return a, np.ones(a.shape[:-1])
    if domain != "adaptive":
        raise InputError(f'domain must be "adaptive" or "simplex", found {domain!r}.')
    if (order_losses < 0).any():
        raise InputError(
            f"losses: the adaptive domain needs A F >= 0, found an entry of {order_losses.min():.4g}. Subtract a lower "
            'bound from the losses (lower= in minimize) or use domain="simplex".'
        )
    total = order_losses.sum(axis=-1)
    if (total <= 0).any():
        raise InputError(
            "losses: the adaptive domain needs a positive sum of A F, found 0: every loss is at its lower bound. "
            'Nothing is left to improve; domain="simplex" takes any losses.'
        )
    return order_losses, total
