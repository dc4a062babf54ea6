"""The merit that each step must decrease: the order's worst row relative to a direction, plus the price of violations.

    merit(F) = max_i (A (F - z))_i / a_i + rho (|G|_+ + |H|)

For a line the direction is the line itself, ``z = through`` and ``a = A ray``: the minimum of the merit then
lies on the line, a loss below it may rise, and no price is needed unless the line misses the front. Otherwise
``z`` and ``a = A F / sum(A F)`` are those of a point of the run (the paper's adaptive domain), renewed only where every
row has fallen since, so between renewals the merit is one fixed function and no cycle is possible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import scipy

from ferero._arrays import Array, Mask
from ferero.errors import ConeError
from ferero.geometry import Cone
from ferero.optimize._conditions import Conditions
from ferero.optimize._scale import RowSizes
from ferero.preference import Preference
from ferero.subprogram import Program, simplex_of, solve_exact
from ferero.subprogram._program import EPSILON, Domain

__all__ = ["Merit", "build_merit", "choose_cone", "held_rows", "nearest_satisfying", "violation_merit"]

INDEPENDENT = 1e-3  # the least singular value of rows of unit length that spares the linear program of `held_rows`
ROUNDING_FLOOR = EPSILON**0.5  # of the largest rate
CONSTRAINED_FLOOR = 1e-2  # a loss near zero must be able to rise where a constraint requires it


@dataclass
class Merit:
    """The merit function of one run.

    Attributes:
        order: A, (k_f, m); rows of zeros were dropped.
        origin: z, (m,).
        rates: a, (k_f,).
        rows: the constraints' rows divided by their typical size, inequalities first, (k_c, m).
        offsets: likewise, (k_c,).
        equalities: how many of the last rows are equalities.
        price: rho.
        follows: whether z and a are renewed along the run.
        lower: what to subtract from the losses before ``a`` is taken from them, (m,).
        asked: the A of the preference, which ``order`` may have opened or left rows of, (k, m).
        in_x: which of the m are constraints in x, (m,).
        shift: what is added to ``A (F - z)``, where rows have constants of their own, (k_f,).
        stacked: ``[A; rows]``, (k_f + k_c, m).
        order_sizes: ``|A|``, (k_f, m).
        sizes: of the constraints' rows.
    """

    order: Array
    origin: Array
    rates: Array
    rows: Array
    offsets: Array
    equalities: int
    price: float
    follows: bool
    lower: Array
    asked: Array
    in_x: Mask
    shift: Array | None = None
    stacked: Array = field(init=False)
    order_sizes: Array = field(init=False)
    sizes: RowSizes = field(init=False)
    _divisors: list[float] = field(init=False)
    _span: Array = field(init=False)  # from the start to the bounds, (m,)

    def __post_init__(self) -> None:
        self._span = np.maximum(self.origin - self.lower, 0.0)
        self._settle()

    def _settle(self) -> None:
        """What follows from the rows."""
        self.stacked = np.concatenate([self.order, self.rows])
        self.order_sizes = np.abs(self.order)
        in_x = np.asarray(self.rows[:, self.in_x].any(axis=-1)) if self.in_x.any() else None
        self.sizes = RowSizes(self.rows, self.offsets, in_x)
        self._divide()

    def _divide(self) -> None:
        """The rates with a floor, so that a loss at rest may move by rounding; infinite for rows that were dropped."""
        floored = np.maximum(self.rates, ROUNDING_FLOOR * self.rates.max())
        self._divisors = np.where(self.order_sizes.any(axis=-1), floored, np.inf).tolist()

    def order_values(self, losses: Array) -> Array:
        """``A (F - z)``, (k_f,)."""
        values = self.order @ (losses - self.origin)
        return values if self.shift is None else values + self.shift

    def worst(self, order_values: Array) -> float:
        """``max_i (A (F - z))_i / a_i``."""
        pairs = zip(order_values.tolist(), self._divisors, strict=True)
        return max([value / divisor for value, divisor in pairs if divisor != math.inf], default=-math.inf)

    def constraint_values(self, losses: Array) -> Array:
        """G and H relative to their rows' typical size, (k_c,)."""
        return self.rows @ losses + self.offsets

    def violations(self, values: Array) -> list[float]:
        """``[G]_+`` then ``|H|``, k_c of them."""
        numbers = values.tolist()
        first = len(numbers) - self.equalities
        return [max(value, 0.0) for value in numbers[:first]] + [abs(value) for value in numbers[first:]]

    def value(self, losses: Array) -> float:
        """The merit."""
        worst = self.worst(self.order_values(losses))
        if not self.price:
            return worst
        return worst + self.price * sum(self.violations(self.constraint_values(losses)))

    def magnitude(self, losses: Array, constants: float = 1.0) -> float:
        """What the merit would be if nothing in it cancelled: its rounding is that of these numbers."""
        sizes = np.abs(losses)
        terms = self.order_sizes @ (sizes + constants * np.abs(self.origin))
        size: float = max([term / divisor for term, divisor in zip(terms.tolist(), self._divisors, strict=True)])
        if self.price:
            size += self.price * float((self.sizes.magnitude @ sizes + constants * np.abs(self.offsets)).sum())
        return size

    def renew(self, losses: Array) -> None:
        """Take z and a from the losses if the run follows them and every row has fallen."""
        if not self.follows or (self.order_values(losses) > 0).any():
            return
        self.origin = losses
        sunk = losses < self.lower
        if sunk.any():  # a loss below its bound is taken to be able to fall as far again
            self.lower = np.where(sunk, losses - self._span, self.lower)
        is_row = self.order_sizes.any(axis=-1)
        values = self.order @ (losses - self.lower)
        values = np.maximum(values, self._floor() * values.max()) * is_row
        total = float(values.sum())
        if (values >= 0).all() and total > 0:
            self.rates = values * (self.rates.sum() / max(total, 1e-300))
            self._divide()

    def _floor(self) -> float:
        """The least share of the largest rate that a row gets; none without constraints (weak optima)."""
        return CONSTRAINED_FLOOR if self.rows.any() else 0.0

    def hold(self, rows: Mask, losses: Array, room: Array) -> None:
        """Ask that the masked rows of the order, (k_f,), do not rise above where they are: new inequalities.

        Args:
            rows: which.
            losses: where, (m,).
            room: by how much each may rise all the same, (k_f,).
        """
        for j in np.flatnonzero(rows):
            here = float(self.order[j] @ losses + room[j])
            size = abs(here) or 1.0
            self.rows = np.concatenate([self.order[None, j] / size, self.rows])
            self.offsets = np.concatenate([[-here / size], self.offsets])
        self._settle()

    def drop(self, rows: Mask) -> None:
        """Take the masked rows, (k_f,), out of the order."""
        self.order = np.where(rows[:, None], 0.0, self.order)
        self.rates = np.where(rows, 0.0, self.rates)
        self._settle()


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
    conditions: Conditions, losses: Array, lower: Array, domain: Domain, reaches: Array
) -> tuple[Merit, Cone]:
    """The merit function for a run that starts at the given losses, and the cone that it uses.

    Args:
        conditions: the preference and the constraints in x.
        losses: F and the constraints in x, (m + p,).
        lower: lower bounds of the losses, (m,).
        domain: "adaptive" or "simplex", for preferences that are not lines.
        reaches: by how much each of the losses and constraints changes nearby, (m + p,).
    """
    m, preference = conditions.m, conditions.preference
    cone = choose_cone(preference, losses[:m])
    A, origin = cone.matrix.numpy(), losses.copy()
    aligned, follows, in_line = _aligned(preference, A, losses[:m]), False, 1.0
    price = FIRST_PRICE
    if aligned is not None:
        origin[:m], rates = aligned
        is_priced = conditions.in_x.any() or preference.at_most is not None
        price = FIRST_PRICE if is_priced else 0.0 if preference.ray is not None else LINE_PRICE
        in_line = LINE_IN_X if is_priced and preference.at_most is None else 1.0
    else:
        rates, follows = _proportional(A, losses[:m] - lower, domain)
        if len(conditions.rows):
            rates = np.maximum(rates, CONSTRAINED_FLOOR * rates.max())
    sizes = conditions.sizes.magnitude @ np.abs(losses) + np.abs(conditions.offsets)
    if conditions.in_x.any():
        nearby = conditions.sizes.magnitude @ reaches
        sizes = np.where(conditions.in_x, np.maximum(sizes, nearby), sizes / in_line)
    else:
        sizes = sizes / in_line
    sizes[sizes == 0] = 1.0
    merit = Merit(
        order=conditions.widen(A),
        origin=origin,
        rates=rates,
        rows=conditions.rows / sizes[:, None],
        offsets=conditions.offsets / sizes,
        equalities=conditions.equalities,
        price=price if len(conditions.rows) else 0.0,
        follows=follows,
        lower=np.concatenate([lower, np.zeros(len(losses) - m)]),
        asked=conditions.A,
        in_x=np.arange(len(losses)) >= m,
    )
    return merit, cone


def violation_merit(merit: Merit, losses: Array, scales: Array) -> Merit:
    """The merit that is the largest violation alone: ``max_i [G; H; -H]_i``, each relative to its size.

    Args:
        merit: of the run.
        losses: where the search for the smallest violation starts, (m + p,).
        scales: the sizes of the rows, (k_c,).
    """
    inequalities = len(merit.rows) - merit.equalities
    used = np.asarray(merit.rows.any(axis=1))
    equality = used & (np.arange(len(used)) >= inequalities)
    rows, constants = merit.rows / scales[:, None], merit.offsets / scales
    order = np.concatenate([rows[used], -rows[equality]])
    offsets = np.concatenate([constants[used], -constants[equality]])
    size = max(float((order @ losses + offsets).max()), 1e-300)
    M = merit.rows.shape[1]
    return Merit(
        order=order,
        origin=np.zeros(M),
        rates=np.full(len(order), size),
        rows=np.zeros((0, M)),
        offsets=np.zeros(0),
        equalities=0,
        price=0.0,
        follows=False,
        lower=np.zeros(M),
        asked=order,
        in_x=merit.in_x,
        shift=offsets,
    )


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
