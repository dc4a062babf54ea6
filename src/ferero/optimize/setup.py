"""From preferences and the losses at the start to merit functions: which cone, which direction, which units."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from ferero.errors import ConeError
from ferero.geometry import Cone
from ferero.optimize.held import held_rows
from ferero.optimize.merit import CONSTRAINED_FLOOR, Merit
from ferero.preference import Preference
from ferero.subprogram import Program, simplex_of, solve_exact
from ferero.subprogram.program import Array, Domain

__all__ = ["build_merit", "choose_cone", "nearest_satisfying"]

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
    """The preference's own cone, or the orthant, opened so far that the losses may move to the nearest wanted ones.

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
    except ConeError:  # the nearest wanted losses are all higher: no order can call that better
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
