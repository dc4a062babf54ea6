"""The subprogram's dual as a small quadratic program, alone (`Program`, numpy) and in batches (`Programs`, torch).

Both carry the certificate of their answers: one residual, relative, row by row, to what the terms would be if nothing
cancelled. `Programs` never syncs with the host, so a thousand programs cost as many kernel launches as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from ferero._arrays import Array
from ferero.errors import InputError
from ferero.preference import Preference

__all__ = ["AugmentedRows", "Domain", "Program", "Programs", "Scaled", "augmented_rows", "simplex_of"]

Domain: TypeAlias = Literal["adaptive", "simplex"]

EPSILON = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
_most = np.maximum.reduce  # the method of arrays takes twice as long
MANY = 1e100  # stands for an infinite distance where it is multiplied by zero


T = TypeVar("T")


class _computed(Generic[T]):  # noqa: N801
    """A property that is computed at its first use: ``functools.cached_property`` without the lock of Python 3.11."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function, self._name, self.__doc__ = function, function.__name__, function.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        if instance is None:  # asked of the class
            return self  # type: ignore[return-value]
        value = instance.__dict__[self._name] = self._function(instance)
        return value


class _Numbers(NamedTuple):
    """What a residual is measured by: ``|q|`` (k,), and of each row ``|q_i|``, ``|S_i gradF|`` and the two bounds."""

    sizes: Array
    rows: list[tuple[float, float, float, float]]


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

    def stretched(self, factor: float) -> Program:
        """The program with the gramian ``factor K``; what stays the same is not computed again."""
        out = replace(self, gramian=factor * self.gramian)
        out.__dict__.update(
            quadratic=factor * self.quadratic,
            lengths=math.sqrt(factor) * self.lengths,
            a=self.a,
            lower=self.lower,
            upper=self.upper,
        )
        return out

    @_computed
    def quadratic(self) -> Array:
        """Q, (k, k)."""
        Q: Array = self.rows @ self.gramian @ self.rows.T
        return 0.5 * (Q + Q.T)

    @_computed
    def lengths(self) -> Array:
        """The norm of each row's gradient, (k,)."""
        return np.asarray(np.sqrt(np.maximum(self.quadratic.diagonal(), 0.0)))

    @_computed
    def a(self) -> Array:
        """``a / b`` continued by zeros, (k,): how much of c each row of the primal is granted."""
        out = np.zeros(len(self.linear))
        out[: len(self.simplex)] = self.simplex / self.total
        return out

    @_computed
    def lower(self) -> Array:
        """Lower bounds of the multipliers, (k,)."""
        out = np.zeros(len(self.linear))
        out[len(out) - self.equalities :] = -self.bound
        return out

    @_computed
    def upper(self) -> Array:
        """Upper bounds of the multipliers, (k,)."""
        out = np.full(len(self.linear), np.inf)
        out[len(self.simplex) :] = self.bound
        return out

    @_computed
    def unmet(self) -> Array:
        """How far each row is from being met by d = 0, c = 0, (k,)."""
        out: Array = np.maximum(self.linear, 0.0)
        first = len(out) - self.equalities
        out[first:] = np.abs(self.linear[first:])
        return out

    @_computed
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
        return np.asarray(left - lam[:k_f].dot(left[:k_f]) * self.a)

    def uncancelled(self, lam: Array) -> float:
        """``sum_i |lam_i| |S_i gradF|``: the direction's length if nothing in it cancelled.

        At least the rounding of a sum with the longest admissible gradient in it.
        """
        length = float(np.abs(lam).dot(self.lengths))
        if len(self.simplex):
            length = max(length, len(lam) * EPSILON * float(_most(self.ends)))
        return length

    def residual(self, lam: Array) -> float:
        """The worst relative violation of the optimality conditions by ``lam``, none of them cancelled away.

        Where a row of the primal is not met, or met with room to spare, its multiplier must be at a bound.
        The slack is measured against ``|S_i gradF| D + |q_i|``, slack times distance to the bound against
        ``D^2 + |q|.|lam|``, and the smaller counts; D is the uncancelled length of the direction. Nor may
        ``lam`` leave its domain, relative to its own size.
        """
        length = self.uncancelled(lam)
        if not length < math.inf:
            return math.inf
        left, numbers = self.slack(lam).tolist(), lam.tolist()
        terms = length * length + float(self._numbers.sizes.dot(np.abs(lam))) or 1.0
        worst = beyond = 0.0
        for value, slack, row in zip(numbers, left, self._numbers.rows, strict=True):
            size, norm, low, high = row
            above, below = high - value, value - low
            lack = abs(slack)
            gap = lack * min(above if slack > 0 else below, MANY) / terms
            worst = max(worst, min(lack / (norm * length + size or 1.0), gap))
            beyond = max(beyond, -above, -below)
        if beyond > 0:
            worst = max(worst, beyond / float(np.abs(lam).max()))
        return max(worst, abs(float(self.a.dot(lam)) - 1.0)) if len(self.simplex) else worst

    @_computed
    def _numbers(self) -> _Numbers:
        sizes = np.abs(self.linear)
        columns = sizes.tolist(), self.lengths.tolist(), self.lower.tolist(), self.upper.tolist()
        return _Numbers(sizes, list(zip(*columns, strict=True)))

    def feasible(self, lam: Array) -> Array:
        """``lam`` clipped to its bounds, the order's part rescaled to its sum, rows that do nothing at 0."""
        clipped = np.minimum(np.maximum(lam, self.lower), self.upper)
        reached = float(self.a @ clipped)
        if reached > 0:
            clipped[: len(self.simplex)] /= reached
        if not self.lengths.all():  # padding: rows of zeros
            clipped[(self.lengths == 0) & (self.a == 0) & (self.unmet == 0)] = 0.0
        return np.asarray(clipped)


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

    @_computed
    def quadratic(self) -> Tensor:
        """Q, (P, k, k)."""
        return torch.bmm(torch.bmm(self.rows, self.gramian), self.rows.mT)

    @_computed
    def lengths(self) -> Tensor:
        """The norm of each row's gradient, (P, k)."""
        return self.quadratic.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt()

    @_computed
    def a(self) -> Tensor:
        """``a / b`` continued by zeros, (P, k)."""
        share = self.simplex / self.total[:, None]
        constraints = self.linear.shape[-1] - self.simplex.shape[-1]
        return torch.nn.functional.pad(share, (0, constraints)) if constraints else share

    @_computed
    def lower(self) -> Tensor:
        """Lower bounds of the multipliers, (P, k)."""
        out = torch.zeros_like(self.linear)
        if self.equalities:
            out[:, -self.equalities :] = -self._rho
        return out

    @_computed
    def upper(self) -> Tensor:
        """Upper bounds of the multipliers, (P, k)."""
        out = torch.full_like(self.linear, torch.inf)
        out[:, self.simplex.shape[-1] :] = self._rho
        return out

    @property
    def _rho(self) -> Tensor | float:
        return self.bound[:, None] if isinstance(self.bound, Tensor) else self.bound

    @_computed
    def rounding(self) -> Tensor:
        """The rounding of a direction with the longest admissible gradient in it, (P, 1)."""
        k, k_f = self.linear.shape[-1], self.simplex.shape[-1]
        ends = self.lengths[:, :k_f] / self.a[:, :k_f]
        longest = ends.nan_to_num(nan=0.0, posinf=0.0).amax(dim=-1, keepdim=True)
        return k * EPSILON * longest

    @_computed
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
        needed = torch.where(lengths > 0, unmet / lengths, 0.0).amax(dim=-1)
        order = self.a[:, :k_f]
        ends = torch.where(order > 0, lengths[:, :k_f] / order, torch.inf).amin(dim=-1)
        payable = (lengths * self.upper.clamp(max=MANY))[:, k_f:].sum(dim=-1)
        typical = torch.maximum(torch.minimum(needed, payable + ends), ends)
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
    lowest = float(np.minimum.reduce(order_losses, axis=None))
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


class AugmentedRows(NamedTuple):
    """A preference as one block of rows, ``[A; B_g; B_h]``, with its offsets.

    Attributes:
        matrix: (..., k, m).
        offsets: 0 for the order, then b_g and b_h, (..., k).
        sizes: How many rows each block has.
    """

    matrix: Tensor
    offsets: Tensor
    sizes: tuple[int, int, int]


def augmented_rows(preference: Preference) -> AugmentedRows:
    """The rows of a preference, or of a stack of them, on their own device."""
    p = preference
    return AugmentedRows(
        torch.cat([p.A, p.B_g, p.B_h], dim=-2),
        torch.cat([torch.zeros_like(p.A[..., 0]), p.b_g, p.b_h], dim=-1),
        (p.A.shape[-2], p.m_g, p.m_h),
    )
