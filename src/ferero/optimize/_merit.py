"""The merit that each step must decrease: the order's worst row relative to a direction, plus the price of violations.

    merit(F) = max_i (A (F - z))_i / a_i + rho (|G|_+ + |H|)

For a line the direction is the line itself, ``z = through`` and ``a = A ray``: the minimum of the merit then
lies on the line, a loss below it may rise, and no price is needed unless the line misses the front. Otherwise
``z`` and ``a = A F / sum(A F)`` are those of a point of the run (the paper's adaptive domain), renewed only where every
row has fallen since, so between renewals the merit is one fixed function and no cycle is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import scipy

from ferero._arrays import Array, Mask
from ferero.errors import ConeError
from ferero.geometry import Cone
from ferero.preference import Preference
from ferero.subprogram import Program, simplex_of, solve_exact
from ferero.subprogram._program import EPSILON, Domain

__all__ = ["Merit", "build_merit", "choose_cone", "held_rows", "nearest_satisfying"]

CONSTRAINED_FLOOR = 1e-2  # a loss near zero must be able to rise where a constraint requires it


@dataclass
class Merit:
    """The merit functions of P runs.

    Attributes:
        order: A, (P, k_f, m); rows of zeros are padding.
        origin: z, (P, m).
        rates: a, (P, k_f).
        rows: the constraints' rows divided by their typical size, inequalities first, (P, k_c, m).
        offsets: likewise, (P, k_c).
        equalities: how many of the last rows are equalities.
        price: rho, (P,).
        follows: which runs renew z and a as they go, (P,).
        lower: what to subtract from the losses before ``a`` is taken from them, (P, m).
        asked: the A of the preferences, which ``order`` may have opened or left rows of, (P, k, m).
    """

    order: Array
    origin: Array
    rates: Array
    rows: Array
    offsets: Array
    equalities: int
    price: Array
    follows: Mask
    lower: Array
    asked: Array
    _divisors: Array = field(init=False)
    _spans: Array = field(init=False)  # from the start to the bounds, (P, m)

    def __post_init__(self) -> None:
        self._spans = np.maximum(self.origin - self.lower, 0.0)
        self._divisors = self._floored()

    def _floored(self) -> Array:
        """The rates with a floor, so that a loss at rest may move by rounding; infinite for padding."""
        largest = self.rates.max(axis=-1, keepdims=True)
        floored = np.maximum(self.rates, np.sqrt(EPSILON) * largest)
        return np.where((self.order != 0).any(axis=-1), floored, np.inf)

    def _floor(self) -> Array:
        """The least share of the largest rate that a row gets, (P, 1); none without constraints (weak optima)."""
        return np.where((self.rows != 0).any(axis=(1, 2)), CONSTRAINED_FLOOR, 0.0)[:, None]

    def order_values(self, losses: Array) -> Array:
        """``A (F - z)``, (P, k_f)."""
        return np.asarray((self.order @ (losses - self.origin)[:, :, None])[:, :, 0])

    def worst(self, order_values: Array) -> Array:
        """``max_i (A (F - z))_i / a_i``, (P,)."""
        relative = order_values / self._divisors
        return np.asarray(np.where(np.isinf(self._divisors), -np.inf, relative).max(axis=-1))

    def constraint_values(self, losses: Array) -> Array:
        """G and H relative to their rows' typical size, (P, k_c)."""
        return np.asarray((self.rows @ losses[:, :, None])[:, :, 0] + self.offsets)

    def violation(self, values: Array) -> Array:
        """``[G]_+`` then ``|H|``, (P, k_c)."""
        inequalities = values.shape[1] - self.equalities
        return np.concatenate([np.maximum(values[:, :inequalities], 0.0), np.abs(values[:, inequalities:])], axis=1)

    def value(self, losses: Array) -> Array:
        """The merit, (P,)."""
        worst = self.worst(self.order_values(losses))
        if not self.price.any():
            return worst
        return np.asarray(worst + self.price * self.violation(self.constraint_values(losses)).sum(axis=-1))

    def magnitude(self, losses: Array) -> Array:
        """What the merit would be if nothing in it cancelled: its rounding is that of these numbers, (P,)."""
        terms = (np.abs(self.order) @ (np.abs(losses) + np.abs(self.origin))[:, :, None])[:, :, 0]
        size = (terms / self._divisors).max(axis=-1)
        if self.price.any():
            parts = (np.abs(self.rows) @ np.abs(losses)[:, :, None])[:, :, 0] + np.abs(self.offsets)
            size = size + self.price * parts.sum(axis=-1)
        return np.asarray(size)

    def renew(self, losses: Array) -> None:
        """Take z and a from the losses of those runs that follow and whose every row has fallen."""
        if not self.follows.any():
            return
        falls = self.follows & (self.order_values(losses) <= 0).all(axis=-1)
        if falls.any():
            self.origin = np.where(falls[:, None], losses, self.origin)
            self._lower_the_bounds(falls, losses)
            values = (self.order @ (losses - self.lower)[:, :, None])[:, :, 0]
            values = np.maximum(values, self._floor() * values.max(axis=-1, keepdims=True)) * (self.order != 0).any(
                axis=-1
            )
            scaled = values * (self.rates.sum(axis=-1) / np.maximum(values.sum(axis=-1), 1e-300))[:, None]
            usable = falls & (values >= 0).all(axis=-1) & (values.sum(axis=-1) > 0)
            self.rates = np.where(usable[:, None], scaled, self.rates)
            self._divisors = self._floored()

    def _lower_the_bounds(self, runs: Mask, losses: Array) -> None:
        """A loss of the masked runs that has gone below its bound is taken to be able to fall as far again."""
        sunk = runs[:, None] & (losses < self.lower)
        self.lower = np.where(sunk, losses - self._spans, self.lower)

    def hold(self, rows: Mask, losses: Array, room: Array) -> None:
        """Ask that the masked rows of the order, (P, k_f), do not rise above where they are: new inequalities.

        Args:
            rows: which.
            losses: where, (P, m).
            room: by how much each may rise all the same, (P, k_f).
        """
        for j in np.flatnonzero(rows.any(axis=0)):
            here = (self.order[:, j] * losses).sum(axis=-1) + room[:, j]
            size = np.where(here != 0, np.abs(here), 1.0)
            row = np.where(rows[:, j, None], self.order[:, j] / size[:, None], 0.0)
            self.rows = np.concatenate([row[:, None], self.rows], axis=1)
            self.offsets = np.concatenate([np.where(rows[:, j], -here / size, -1.0)[:, None], self.offsets], axis=1)

    def drop(self, rows: Mask) -> None:
        """Take the masked rows, (P, k_f), out of the order."""
        self.order = np.where(rows[:, :, None], 0.0, self.order)
        self.rates = np.where(rows, 0.0, self.rates)
        self._divisors = self._floored()

    def keep(self, runs: Mask) -> None:
        """Forget the runs that are not masked."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, value[runs])


def held_rows(order: Array, inequalities: Array, equalities: Array) -> Mask:
    """Which rows have ``lam_f_i > 0`` in some ``A^T lam_f + B_g^T lam_g + B_h^T lam_h = 0``, lam_f, lam_g >= 0; (k,).

    Such a combination cannot fall while the constraints hold, so it proves every point weakly optimal. The solutions
    are a cone, and one linear program finds its largest support.

    Args:
        order: A, (k, m).
        inequalities: the active rows of B_g, (g, m).
        equalities: B_h, (h, m).
    """
    k, g, h = len(order), len(inequalities), len(equalities)
    if not k or not g + h:
        return np.zeros(k, dtype=bool)
    A, B_g, B_h = _unit(order), _unit(inequalities), _unit(equalities)
    is_row = np.abs(A).sum(axis=1) > 0
    columns = np.concatenate([A, A, B_g, B_h]).T  # shares of at most 1, the rest of lam_f, lam_g, lam_h
    bounds = [(0.0, float(one)) for one in is_row] + [(0.0, None)] * (k + g) + [(None, None)] * h
    gain = np.concatenate([-np.ones(k), np.zeros(k + g + h)])
    found = scipy.optimize.linprog(gain, A_eq=columns, b_eq=np.zeros(len(columns)), bounds=bounds, method="highs")
    if found.status != 0 or found.x is None:
        return np.zeros(k, dtype=bool)
    return np.asarray(found.x[:k] > 0.5)


def _unit(rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))


FIRST_PRICE = 1.0  # of a relative violation against a relative improvement; rays start with none
LINE_PRICE = 0.1  # of equalities that describe a line: with none bent fronts lead far off it, with 1 steps are short


def nearest_satisfying(preference: Preference, losses: Array) -> Array:
    """The losses nearest to the given ones that meet the constraints, distances relative to the given ones; (m,)."""
    B = np.vstack([preference.B_g.numpy(), preference.B_h.numpy()])
    b = np.concatenate([preference.b_g.numpy(), preference.b_h.numpy()])
    if not len(b):
        return losses
    scale = np.where(losses != 0, np.abs(losses), np.abs(losses).max() or 1.0)
    program = Program(B, np.diag(scale**2), B @ losses + b, np.zeros(0), 1.0, preference.m_h)
    return losses - scale**2 * program.weights(solve_exact(program).multipliers)


def choose_cone(preference: Preference, losses: Array) -> Cone:
    """The preference's cone, or the orthant opened just enough to reach the nearest losses that meet the constraints.

    A line needs no opening: its merit is aligned with it, and a loss below the line may rise as it is. Rows that the
    equalities hold cannot be improved and are left out.
    """
    own = preference.cone or _orthant(preference.m)
    if preference.ray is not None or _aligned(preference, own.matrix.numpy(), losses) is not None:
        return own
    base = _without_held_rows(preference.cone or _orthant(preference.m), preference)
    if preference.cone is not None:
        return base
    target = nearest_satisfying(preference, losses)
    if np.allclose(target, losses, rtol=1e-9, atol=0.0):
        return base
    try:
        return base.allowing_ascent(losses, target)
    except ConeError:  # the nearest losses that meet the constraints are all higher: no order calls that better
        return base


def _without_held_rows(cone: Cone, preference: Preference) -> Cone:
    A = cone.matrix.numpy()
    held = held_rows(A, np.zeros((0, preference.m)), preference.B_h.numpy())
    return cone if not held.any() or held.all() else Cone(A[~held])


@cache
def _orthant(m: int) -> Cone:
    return Cone.orthant(m)


def build_merit(
    preferences: Sequence[Preference], losses: Array, lower: Array, domain: Domain
) -> tuple[Merit, list[Cone]]:
    """The merit functions for runs that start at the given losses, and the cones they use.

    Args:
        preferences: P single ones over the same names.
        losses: (P, m).
        lower: lower bounds of the losses, (m,).
        domain: "adaptive" or "simplex", for preferences that are not lines.
    """
    cones = [choose_cone(p, F) for p, F in zip(preferences, losses, strict=True)]
    k_f = max(cone.matrix.shape[0] for cone in cones)
    m_g, m_h = max(p.m_g for p in preferences), max(p.m_h for p in preferences)
    P, m = losses.shape
    order, rates, origin = np.zeros((P, k_f, m)), np.zeros((P, k_f)), losses.copy()
    rows, offsets = np.zeros((P, m_g + m_h, m)), np.zeros((P, m_g + m_h))
    offsets[:, :m_g] = -1.0
    price, follows = np.full(P, FIRST_PRICE), np.zeros(P, dtype=bool)
    for i, (p, cone) in enumerate(zip(preferences, cones, strict=True)):
        A, k = cone.matrix.numpy(), cone.matrix.shape[0]
        order[i, :k] = A
        aligned = _aligned(p, A, losses[i])
        if aligned is not None:
            origin[i], rates[i, :k] = aligned
            price[i] = 0.0 if p.ray is not None else LINE_PRICE
        else:
            rates[i, :k], follows[i] = _proportional(A, losses[i] - lower, domain)
            if p.m_g + p.m_h:
                rates[i, :k] = np.maximum(rates[i, :k], CONSTRAINED_FLOOR * rates[i, :k].max())
        for B, b, at in ((p.B_g, p.b_g, 0), (p.B_h, p.b_h, m_g)):
            size = np.abs(B.numpy()) @ np.abs(losses[i]) + np.abs(b.numpy())
            size[size == 0] = 1.0
            rows[i, at : at + len(size)] = B.numpy() / size[:, None]
            offsets[i, at : at + len(size)] = b.numpy() / size
        if not p.m_g + p.m_h:
            price[i] = 0.0
    bounds = np.broadcast_to(lower, losses.shape).copy()
    return Merit(order, origin, rates, rows, offsets, m_h, price, follows, bounds, _stacked(preferences)), cones


def _stacked(preferences: Sequence[Preference]) -> Array:
    """The A of each, with rows of zeros where others have more; (P, k, m)."""
    asked = np.zeros((len(preferences), max(len(p.A) for p in preferences), preferences[0].m))
    for own, preference in zip(asked, preferences, strict=True):
        own[: len(preference.A)] = preference.A.numpy()
    return asked


def _aligned(preference: Preference, A: Array, losses: Array) -> tuple[Array, Array] | None:
    """Z and a of a line whose vector is worse in every row, None for what is not one.

    A line through two points runs both ways, so the order in which they were named does not matter; so does one that
    equalities describe, such as ``f.b - f.a == 0.5``.
    """
    line = _line_of(preference)
    if line is None:
        return None
    origin, direction = line
    rates = A @ direction
    runs_both_ways = preference.m_g == 0 and not (preference.ray is not None and preference.through is None)
    if runs_both_ways and (rates < 0).all():
        rates = -rates
    if not (rates > 0).all():
        return None
    size = float(np.abs(A @ (losses - origin) / rates).max())
    return origin, rates * (size or 1.0)


def _line_of(preference: Preference) -> tuple[Array, Array] | None:
    """A point and the direction of the line that a preference is, None for what is not one."""
    m = preference.m
    if preference.ray is not None:
        return np.zeros(m) if preference.through is None else preference.through.numpy(), preference.ray.numpy()
    B, b = preference.B_h.numpy(), preference.b_h.numpy()
    if preference.m_g or np.linalg.matrix_rank(B) != m - 1:
        return None
    return np.linalg.lstsq(B, -b, rcond=None)[0], np.linalg.svd(B)[2][-1]


def _proportional(A: Array, losses: Array, domain: Domain) -> tuple[Array, bool]:
    """Rates in proportion to the losses (adaptive) or the same for all rows (simplex), and whether they follow them.

    One row has no proportions, and rows with negative entries may take any sign of losses that are not negative.
    """
    values = A @ losses
    mixed = bool((A < 0).any()) and (losses >= 0).all()
    if domain == "adaptive" and values.any() and not (len(A) == 1 or (mixed and (values < 0).any())):
        return simplex_of(values, A, domain)[0], True
    return np.full(len(A), float(np.abs(values).max()) or 1.0), False
