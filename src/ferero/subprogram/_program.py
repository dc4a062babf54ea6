"""The subprogram's dual as a small quadratic program, and the certificate that its answers are held to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from ferero._arrays import Array
from ferero.errors import InputError

__all__ = ["Domain", "Program", "simplex_of"]

Domain: TypeAlias = Literal["adaptive", "simplex"]

EPSILON = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
_least, _most = np.minimum.reduce, np.maximum.reduce  # the methods of arrays take twice as long
MANY = 1e100  # stands for an infinite distance where it is multiplied by zero


@dataclass(frozen=True, eq=False)
class Program:
    """One dual program: minimise ``lam.Q lam / 2 - q.lam`` over the domain of the multipliers.

    The domain is ``lam_f >= 0`` with ``a.lam_f = b``, ``0 <= lam_g <= rho``, ``|lam_h| <= rho``, and
    ``Q = S K S^T`` with the stacked rows ``S = [A; B_g; B_h]`` and the gramian K. Its dual in turn is the
    primal of the paper: minimise ``c + |d|^2 / 2`` with ``S_i gradF^T d + q_i <= c a_i / b`` (``= 0`` for the
    last rows), where rho is the price of a unit of violation.

    Attributes:
        rows: S, (k, m): those of the order, of the inequalities, of the equalities.
        gramian: K, (m, m), symmetric positive semidefinite.
        linear: q, (k,): zero for the order's rows (or their current values), ``c_g G``, ``c_h H``.
        simplex: a, (k_f,), non-negative; its length is the number of the order's rows.
        total: b, positive.
        equalities: How many of the last rows are equalities.
        bound: rho, infinite unless the form is elastic.
    """

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
        Q: Array = self.rows @ self.gramian @ self.rows.T
        return 0.5 * (Q + Q.T)

    @cached_property
    def lengths(self) -> Array:
        """The norm of each row's gradient, (k,)."""
        return np.asarray(np.sqrt(np.maximum(self.quadratic.diagonal(), 0.0)))

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
    def unmet(self) -> Array:
        """How far each row is from being met by d = 0, c = 0, (k,)."""
        out: Array = np.maximum(self.linear, 0.0)
        first = len(out) - self.equalities
        out[first:] = np.abs(self.linear[first:])
        return out

    @cached_property
    def ends(self) -> Array:
        """The gradient's norm at each corner, ``|A_i gradF| b / a_i``, (k_f,); 0 where a is 0."""
        lengths = self.lengths[: len(self.simplex)] * self.total
        if self.simplex.all():
            return np.asarray(lengths / self.simplex)
        return np.divide(lengths, self.simplex, out=np.zeros_like(lengths), where=self.simplex > 0)

    def weights(self, lam: Array) -> Array:
        """``w = S^T lam``, (m,)."""
        return np.asarray(lam @ self.rows)

    def rate(self, lam: Array) -> float:
        """The primal's c that belongs to the multipliers: ``lam_f.(q - Q lam)_f``."""
        k_f = len(self.simplex)
        return float(lam[:k_f] @ (self.linear - self.quadratic @ lam)[:k_f])

    def slack(self, lam: Array) -> Array:
        """``q - Q lam - c a / b``, (k,): what the direction leaves of each primal row; feasible if <= 0."""
        k_f = len(self.simplex)
        left = self.linear - self.quadratic @ lam
        return np.asarray(left - (lam[:k_f] @ left[:k_f]) * self.a)

    def uncancelled(self, lam: Array) -> float:
        """``sum_i |lam_i| |S_i gradF|``: the direction's length if nothing in it cancelled.

        At least the rounding of a sum with the longest admissible gradient in it.
        """
        rounding = len(lam) * EPSILON * float(_most(self.ends, initial=0.0))
        return max(float(np.abs(lam) @ self.lengths), rounding)

    def residual(self, lam: Array) -> float:
        """The worst relative violation of the optimality conditions by ``lam``, none of them cancelled away.

        Where a row of the primal is not met, or met with room to spare, its multiplier must be at a bound.
        The slack is measured against ``|S_i gradF| D + |q_i|``, slack times distance to the bound against
        ``D^2 + |q|.|lam|``, and the smaller counts; D is the uncancelled length of the direction. Nor may
        ``lam`` leave its domain, relative to its own size.
        """
        size, q = np.abs(lam), np.abs(self.linear)
        length, left = self.uncancelled(lam), self.slack(lam)
        slack, above, below = np.abs(left), self.upper - lam, lam - self.lower
        scale = self.lengths * length + q
        if not scale.all():
            scale[scale == 0] = 1.0
        room = np.minimum(np.where(left > 0, above, below), MANY)
        gap = slack * room / (length * length + float(q @ size) or 1.0)
        missing = abs(float(self.a @ lam) - 1.0) if len(self.simplex) else 0.0
        beyond = -float(_least(np.minimum(above, below)))
        outside = max(missing, beyond / float(_most(size)) if beyond > 0 else 0.0)
        return max(float(_most(np.minimum(slack / scale, gap))), outside)

    def feasible(self, lam: Array) -> Array:
        """``lam`` clipped to its bounds, the order's part rescaled to its sum, rows that do nothing at 0."""
        clipped = np.minimum(np.maximum(lam, self.lower), self.upper)
        reached = float(self.a @ clipped)
        if reached > 0:
            clipped[: len(self.simplex)] /= reached
        if not self.lengths.all():  # padding: rows of zeros
            clipped[(self.lengths == 0) & (self.a == 0) & (self.unmet == 0)] = 0.0
        return np.asarray(clipped)


def simplex_of(order_losses: Array, order: Array, domain: Domain) -> tuple[Array, Array]:
    """The domain's vector and total: ``a.lam_f = b``.

    Args:
        order_losses: A F, (..., k).
        order: A, (..., k, m); rows of zeros (padding) take no part.
        domain: "adaptive" for a = A F, b = sum(A F); "simplex" for a = 1, b = 1.

    Returns:
        a (..., k) and b (...).

    Raises:
        InputError: The adaptive domain with a negative entry or no positive one.
    """
    if domain == "simplex":
        a = np.broadcast_to((order != 0).any(axis=-1), order_losses.shape).astype(np.float64)
        return a, np.ones(a.shape[:-1])
    if domain != "adaptive":
        raise InputError(f'domain: expected "adaptive" or "simplex", found {domain!r}.')
    lowest = float(_least(order_losses, axis=None))
    if lowest < 0:
        raise InputError(
            f"losses: the adaptive domain needs losses (A F) that are not negative, found {lowest:.4g}; give a lower "
            'bound that no loss goes below (lower= in minimize), or use domain="simplex" '
            '(method=ferero.Ferero(domain="simplex")).'
        )
    total = np.add.reduce(order_losses, axis=-1)
    if not total.all():
        raise InputError(
            "losses: the adaptive domain needs a positive sum of A F, found 0, so every loss is at its lower "
            'bound and nothing is left to improve; domain="simplex" takes any losses.'
        )
    return order_losses, total
