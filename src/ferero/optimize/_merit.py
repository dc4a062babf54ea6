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
from ferero.optimize._conditions import Conditions
from ferero.preference import Preference
from ferero.subprogram import Program, simplex_of, solve_exact
from ferero.subprogram._program import EPSILON, Domain

__all__ = ["Merit", "build_merit", "choose_cone", "held_rows", "nearest_satisfying", "violation_merit"]

INDEPENDENT = 1e-3  # the least singular value of rows of unit length that spares the linear program of `held_rows`
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
        shift: what is added to ``A (F - z)``, where rows have constants of their own, (P, k_f).
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
    shift: Array | None = None
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
        values = (self.order @ (losses - self.origin)[:, :, None])[:, :, 0]
        return np.asarray(values if self.shift is None else values + self.shift)

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

    def magnitude(self, losses: Array, constants: float = 1.0) -> Array:
        """What the merit would be if nothing in it cancelled: its rounding is that of these numbers, (P,)."""
        terms = (np.abs(self.order) @ (np.abs(losses) + constants * np.abs(self.origin))[:, :, None])[:, :, 0]
        size = (terms / self._divisors).max(axis=-1)
        if self.price.any():
            parts = (np.abs(self.rows) @ np.abs(losses)[:, :, None])[:, :, 0] + constants * np.abs(self.offsets)
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
    if _is_independent(np.concatenate([A[is_row], B_g, B_h])):
        return np.zeros(k, dtype=bool)
    columns = np.concatenate([A, A, B_g, B_h]).T  # shares of at most 1, the rest of lam_f, lam_g, lam_h
    bounds = [(0.0, float(one)) for one in is_row] + [(0.0, None)] * (k + g) + [(None, None)] * h
    gain = np.concatenate([-np.ones(k), np.zeros(k + g + h)])
    found = scipy.optimize.linprog(gain, A_eq=columns, b_eq=np.zeros(len(columns)), bounds=bounds, method="highs")
    if found.status != 0 or found.x is None:
        return np.zeros(k, dtype=bool)
    return np.asarray(found.x[:k] > 0.5)


def _is_independent(rows: Array) -> bool:
    """Whether only zero multipliers combine rows of unit length, (k, m), to zero, by far more than rounding."""
    if len(rows) > rows.shape[1]:
        return False
    return bool(np.linalg.svd(rows, compute_uv=False).min(initial=np.inf) > INDEPENDENT)


def _unit(rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))


FIRST_PRICE = 1.0  # of a relative violation against a relative improvement; rays start with none
LINE_PRICE = 0.1  # of equalities that describe a line: with none bent fronts lead far off it, with 1 steps are short
LINE_IN_X = 1e-3  # the same beside constraints in x, which need a price from the start
REACH = 1.0  # of the parameters' size: the change of x over which a loss without another scale is measured


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
    is_line = preference.ray is not None or preference.at_most is not None
    if is_line or _aligned(preference, own.matrix.numpy(), losses) is not None:
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
    conditions: Sequence[Conditions], losses: Array, lower: Array, domain: Domain, reaches: Array
) -> tuple[Merit, list[Cone]]:
    """The merit functions for runs that start at the given losses, and the cones they use.

    Args:
        conditions: P of them over the same names and constraints in x.
        losses: F and the constraints in x, (P, m + p).
        lower: lower bounds of the losses, (m,).
        domain: "adaptive" or "simplex", for preferences that are not lines.
        reaches: by how much each of the losses and constraints changes nearby, (P, m + p).
    """
    m = conditions[0].m
    cones = [choose_cone(c.preference, F[:m]) for c, F in zip(conditions, losses, strict=True)]
    k_f = max(cone.matrix.shape[0] for cone in cones)
    m_g, m_h = max(len(c.b_g) for c in conditions), max(len(c.b_h) for c in conditions)
    P, M = losses.shape
    order, rates, origin = np.zeros((P, k_f, M)), np.zeros((P, k_f)), losses.copy()
    rows, offsets = np.zeros((P, m_g + m_h, M)), np.zeros((P, m_g + m_h))
    offsets[:, :m_g] = -1.0
    price, follows = np.full(P, FIRST_PRICE), np.zeros(P, dtype=bool)
    for i, (c, cone) in enumerate(zip(conditions, cones, strict=True)):
        p, A, k = c.preference, cone.matrix.numpy(), cone.matrix.shape[0]
        order[i, :k] = c.widen(A)
        aligned = _aligned(p, A, losses[i, :m])
        in_line = 1.0
        if aligned is not None:
            origin[i, :m], rates[i, :k] = aligned
            is_priced = c.in_x.any() or p.at_most is not None
            price[i] = FIRST_PRICE if is_priced else 0.0 if p.ray is not None else LINE_PRICE
            in_line = LINE_IN_X if is_priced and p.at_most is None else 1.0
        else:
            rates[i, :k], follows[i] = _proportional(A, losses[i, :m] - lower, domain)
            if len(c.rows):
                rates[i, :k] = np.maximum(rates[i, :k], CONSTRAINED_FLOOR * rates[i, :k].max())
        for B, b, at in ((c.B_g, c.b_g, 0), (c.B_h, c.b_h, m_g)):
            size = np.abs(B) @ np.abs(losses[i]) + np.abs(b)
            in_x = (B[:, m:] != 0).any(axis=1)
            size = np.where(in_x, np.maximum(size, np.abs(B) @ reaches[i]), size / in_line)
            size[size == 0] = 1.0
            rows[i, at : at + len(size)] = B / size[:, None]
            offsets[i, at : at + len(size)] = b / size
        if not len(c.rows):
            price[i] = 0.0
    bounds = np.concatenate([np.broadcast_to(lower, (P, m)), np.zeros((P, M - m))], axis=1)
    return Merit(order, origin, rates, rows, offsets, m_h, price, follows, bounds, _stacked(conditions)), cones


def violation_merit(merit: Merit, i: int, losses: Array, scales: Array) -> Merit:
    """The merit of one run that is the largest violation alone: ``max_i [G; H; -H]_i``, each relative to its size.

    Args:
        merit: of all runs.
        i: which.
        losses: where the search for the smallest violation starts, (m + p,).
        scales: the sizes of the rows, (k_c,).
    """
    inequalities = merit.rows.shape[1] - merit.equalities
    used = (merit.rows[i] != 0).any(axis=1)
    equality = used & (np.arange(len(used)) >= inequalities)
    rows, constants = merit.rows[i] / scales[:, None], merit.offsets[i] / scales
    order = np.concatenate([rows[used], -rows[equality]])
    offsets = np.concatenate([constants[used], -constants[equality]])
    size = max(float((order @ losses + offsets).max()), 1e-300)
    M, k = merit.rows.shape[2], len(order)
    return Merit(
        order[None],
        np.zeros((1, M)),
        np.full((1, k), size),
        np.zeros((1, 0, M)),
        np.zeros((1, 0)),
        0,
        np.zeros(1),
        np.zeros(1, dtype=bool),
        np.zeros((1, M)),
        order[None],
        shift=offsets[None],
    )


def _stacked(conditions: Sequence[Conditions]) -> Array:
    """The A of each, with rows of zeros where others have more; (P, k, m + p)."""
    asked = np.zeros((len(conditions), max(len(c.A) for c in conditions), conditions[0].A.shape[1]))
    for own, c in zip(asked, conditions, strict=True):
        own[: len(c.A)] = c.A
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
    is_one_way = preference.at_most is not None or (preference.ray is not None and preference.through is None)
    runs_both_ways = preference.m_g == 0 and not is_one_way
    if runs_both_ways and (rates < 0).all():
        rates = -rates
    if not (rates > 0).all():
        return None
    size = float(np.abs(A @ (losses - origin) / rates).max())
    return origin, rates * (size or 1.0)


def _line_of(preference: Preference) -> tuple[Array, Array] | None:
    """A point and the direction of the line that a preference is, None for what is not one."""
    m = preference.m
    vector = preference.ray if preference.at_most is None else preference.at_most
    if vector is not None:
        return np.zeros(m) if preference.through is None else preference.through.numpy(), vector.numpy()
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
