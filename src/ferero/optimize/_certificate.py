"""The KKT certificate: how far any point is from first-order optimality, however it was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from ferero._arrays import Array, ArrayLike, Mask
from ferero.errors import InputError
from ferero.optimize._box import Bounds, Box, choose_scale, read_bounds, read_scale
from ferero.optimize._conditions import Conditions, make_joint_evaluator
from ferero.optimize._constraint_rows import Constraints, read_constraints
from ferero.optimize._evaluator import Function, Point, UserFunction, read_starts
from ferero.optimize._merit import held_rows
from ferero.optimize._outcome import Seen
from ferero.optimize._scale import (
    SEEN_SHARE,
    gradient_scale,
    norms_of,
    reaches_of,
    relative_columns,
    still_counts,
    worst_share,
)
from ferero.preference import Preference
from ferero.preference._assembly import no_preference
from ferero.preference._preference import check_steady
from ferero.preference._rewriting import are_valid
from ferero.subprogram import Program, solve_exact

__all__ = ["KKT", "certify", "check_count", "check_single", "kkt_of", "no_certificate"]

ACTIVE = 1e-6  # relative slack below which an inequality counts as active
BALANCES = 20  # rounds in which parameters at bounds are left out and taken in again


@dataclass(frozen=True)
class KKT:
    """The paper's merit, each part relative: zero exactly at a point that meets the first-order conditions.

    Attributes:
        stationarity: ``|gradF w + J_c^T lam_c + mu|`` over the largest gradient norm of a row of the order, for the
            best multipliers whose order part is a convex combination of the order's gradients at unit scale; at least
            a thousandth of the largest slope of one parameter relative to the largest that it had.
        complementarity: the largest ``lam_g [-G]_+`` with G relative to its size and lam_g to unit gradients.
        feasibility: the largest ``[G]_+`` or ``|H|``, constraints in x included, relative to ``|B||F| + |b|`` or to how
            much the row varies, whichever is less.
        weights: the w of ``stationarity``, (m,), float64.
        multipliers: [lam_f; lam_g; lam_h] behind them, (k,).
        constraint_multipliers: lam_c, those of the constraints in x, (k,) for each; positive at an upper bound,
            negative at a lower one.
        bound_multipliers: mu, those of the bounds, (n,); positive at an upper bound, negative at a lower one.
    """

    stationarity: float
    complementarity: float
    feasibility: float
    weights: Array
    multipliers: Array
    constraint_multipliers: tuple[Array, ...]
    bound_multipliers: Array

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(self.stationarity, self.complementarity, self.feasibility)

    def __str__(self) -> str:
        return (
            f"stationarity {self.stationarity:.1e}, complementarity {self.complementarity:.1e}, "
            f"feasibility {self.feasibility:.1e}"
        )


def certify(
    fun: Function,
    x: Point,
    preference: Preference,
    *,
    x0: Point | None = None,
    jac: Function | None = None,
    bounds: Bounds | None = None,
    constraints: Constraints | Sequence[Constraints] | None = None,
    x_scale: ArrayLike | None = None,
    atol: float = 0.0,
) -> KKT:
    """How far ``x`` is from meeting the first-order conditions of the preference, however it was found.

    Stationarity is relative to the gradients at ``x`` of what is minimised, and to a small share of those at ``x0``
    (all of it for one expression that no constraint holds). Without an ``x0`` a point whose coordinates are a tenth
    larger takes its place.

    Args:
        fun: ``fun(theta) -> (m,)``, as in `ferero.minimize`.
        x: the point.
        preference: a single preference.
        x0: where the search began.
        jac: ``jac(theta) -> (m, n)``, or None for automatic or central differences.
        bounds: of the parameters, as in `ferero.minimize`, like all that follow.
        constraints: in x.
        x_scale: the size of a typical change of each parameter.
        atol: violations up to this are none.

    Example:
        >>> import torch, ferero
        >>> fun = lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])
        >>> ferero.certify(fun, torch.zeros(3), ferero.Preference.ray([1.0, 1.0])).worst < 1e-9
        True
    """
    check_single(preference)
    check_atol(atol)
    first_point, points = read_starts(x, 1)
    box, sources = read_bounds(bounds, points.size), read_constraints(constraints, points.size)
    inside = box is None or bool((box.clip(points) == points).all())
    at_point = UserFunction(fun, jac, box if inside else None)
    evaluator, points = make_joint_evaluator(at_point, first_point, 1, sources)
    losses = evaluator.losses(points)
    check_count(preference, evaluator.losses_only)
    conditions = Conditions(preference, evaluator.layout)
    jacobian = evaluator.jacobians(np.zeros(1, dtype=np.int64))
    if not (np.isfinite(losses).all() and np.isfinite(jacobian).all()):
        return no_certificate(conditions, points.size)
    away = read_starts(_nearby(first_point, points[0]) if x0 is None else x0, 1)[1]
    first = evaluator.losses(away if box is None else box.clip(away))
    first, slopes = np.nan_to_num(first), np.nan_to_num(evaluator.jacobians(np.zeros(1, dtype=np.int64)))
    both = np.concatenate([points, away]), np.concatenate([jacobian, slopes])
    scale = choose_scale(box, read_scale(x_scale, points.size), *both)
    points, jacobian, slopes = points / scale, jacobian * scale, slopes * scale
    own = None if box is None else box.in_units(scale)
    norms, others = norms_of(jacobian)[0], norms_of(slopes)[0]
    largest = np.maximum(norms, others)
    columns = np.maximum(relative_columns(jacobian[0], norms), relative_columns(slopes[0], others))
    order = np.linalg.norm(conditions.A @ slopes[0], axis=1)
    spans = np.maximum(
        np.abs(losses - first)[0],
        np.maximum(reaches_of(points[0], jacobian[0]), reaches_of(points[0], slopes[0])),
    )
    seen = Seen(first[0], gradient_scale(norms, largest), order, spans, columns)
    found = kkt_of(conditions, losses[0], jacobian[0], seen, sides_of(own, points[0]), atol)
    if not inside:
        assert own is not None
        found = replace(found, feasibility=max(found.feasibility, float(np.abs(own.clip(points) - points).max())))
    valid = are_valid(preference, torch.from_numpy(losses[0][: preference.m]))
    if valid is not None and not bool(valid):  # a ratio whose denominator is negative
        found = replace(found, feasibility=np.inf)
    return in_units_of_x(found, scale)


def in_units_of_x(kkt: KKT, scale: Array) -> KKT:
    """The certificate of ``x / scale`` as one of x."""
    return replace(kkt, bound_multipliers=kkt.bound_multipliers / scale)


def sides_of(box: Box | None, point: Array) -> NDArray[np.int8] | None:
    """At which bound each parameter is, (n,); None without bounds."""
    return None if box is None else box.sides(point)


def _nearby(x: Point, point: Array) -> Point:
    """A tenth of each coordinate away, of 1 in all of them at the origin."""
    return x + 0.1 if not point.any() else x + 0.1 * abs(x)


def check_atol(atol: object) -> None:
    """Refuses what is no tolerance."""
    if not (isinstance(atol, (int, float, np.number)) and np.isfinite(atol) and atol >= 0):
        raise InputError(f"atol: expected a non-negative number, found {atol!r}.")


def check_single(preference: Preference) -> None:
    """Refuses what is not one preference."""
    if not isinstance(preference, Preference):
        raise InputError(f"preference: {no_preference(preference)}.")
    if preference.members:
        raise InputError("preference: expected a single one, found a stack; use ferero.trace for several.")
    check_steady(preference, "a problem without training")


def check_count(preference: Preference, found: int) -> None:
    """Refuses a function of another number of losses."""
    if found != preference.m:
        raise InputError(
            f"fun(x): expected {preference.m} losses, as the preference names them ({', '.join(preference.names)}), "
            f"found {found}."
        )


def no_certificate(conditions: Conditions, parameters: int) -> KKT:
    """The certificate of a point whose losses or gradients are not finite: infinite residuals."""
    rows = len(conditions.A) + int((~conditions.in_x).sum())
    in_x = tuple(np.full(count, np.nan) for count in conditions.layout.counts)
    nothing = np.full(conditions.m, np.nan), np.full(rows, np.nan), in_x, np.full(parameters, np.nan)
    return KKT(np.inf, np.inf, np.inf, *nothing)


def kkt_of(
    conditions: Conditions,
    losses: Array,
    jacobian: Array,
    seen: Seen,
    sides: NDArray[np.int8] | None = None,
    atol: float = 0.0,
) -> KKT:
    """The certificate from numbers alone.

    Rows of the order that active constraints hold up (``w = 0`` whatever the gradients) prove nothing; they are taken
    out, and the others must be stationary by themselves.

    Args:
        conditions: the preference over m losses, and p constraints in x.
        losses: F and the constraints, (m + p,).
        jacobian: their gradients, (m + p, n).
        seen: the scales that count where losses or gradients vanish.
        sides: at which bound each parameter is, as `Box.sides` says, (n,); None without bounds.
        atol: violations up to this are none.
    """
    preference, A, m = conditions.preference, conditions.A, conditions.m
    stacked = np.concatenate([A, conditions.rows])
    rows = stacked.copy()
    b, m_h, k_f = conditions.offsets, conditions.equalities, len(A)
    m_g = len(b) - m_h
    counting = still_counts(losses, seen.losses)
    sizes_c = conditions.sizes.varying(counting, seen.spans)
    raw = conditions.rows @ losses + b
    values = raw / sizes_c
    linear = np.zeros(len(rows))
    linear[k_f : k_f + m_g] = np.minimum(values[:m_g], 0.0)
    if preference.at_most is not None:
        linear[:k_f] = _below_ceiling(preference.at_most.numpy(), preference, losses[:m], seen.spans[:m])
    is_free = not m_h and bool((values < -ACTIVE).all())
    order = _order_sizes(A, jacobian, seen, is_free)
    scale = float(order.max()) or float(seen.gradients.max()) or 1.0
    unit = jacobian / scale
    sizes = np.concatenate([order, conditions.sizes.magnitude @ seen.gradients]) / scale
    sizes[sizes == 0] = 1.0
    rows[k_f:] /= sizes[k_f:, None]
    simplex = sizes[:k_f] / sizes[:k_f].max()
    is_held = len(b) > 0 and not _is_rising(preference)
    lam, slopes, at_bound = _balance(rows, unit, linear, simplex, m_h, sides, is_held)
    counted = np.where(at_bound, 0.0, slopes)
    beyond = np.maximum(np.concatenate([raw[:m_g], np.abs(raw[m_g:])]) - atol, 0.0) / sizes_c
    complementarity = abs(float((lam * linear)[: k_f + m_g].min(initial=0.0)))
    weights = (lam @ rows)[:m]
    lam[k_f:] /= sizes[k_f:]
    mine, others = conditions.split(lam[k_f:])
    parts = float(np.abs(lam @ stacked) @ seen.gradients) / scale
    return KKT(
        stationarity=max(
            float(np.sqrt(counted @ counted)), worst_share(counted / (parts or 1.0), seen.columns) if parts else 0.0
        ),
        complementarity=complementarity,
        feasibility=float(beyond.max(initial=0.0)),
        weights=weights,
        multipliers=np.concatenate([lam[:k_f], mine]),
        constraint_multipliers=conditions.layout.by_source(others),
        bound_multipliers=np.where(at_bound, -slopes * scale, 0.0),
    )


def _balance(
    rows: Array,
    unit: Array,
    linear: Array,
    simplex: Array,
    equalities: int,
    sides: NDArray[np.int8] | None,
    is_held: bool,
) -> tuple[Array, Array, Mask]:
    """The multipliers with the shortest slopes, the slopes, and which parameters a bound keeps in balance.

    A parameter at its lower bound may have a positive slope and one at its upper bound a negative one: they are left
    out, and the others balanced again, until the same ones are left out; the best of all is returned.
    """
    out = np.zeros(unit.shape[1], dtype=bool) if sides is None else sides == 2
    best, least = None, np.inf
    for _ in range(BALANCES):
        J = unit * ~out if sides is not None else unit
        program = Program(rows, J @ J.T, linear, simplex, 1.0, equalities)
        lam = solve_exact(program).multipliers
        if is_held:
            lam = _without_held_rows(program, lam)
        slopes = lam @ rows @ unit
        if sides is None:
            return lam, slopes, out
        kept = (sides == 2) | ((sides == -1) & (slopes > 0)) | ((sides == 1) & (slopes < 0))
        unbalanced = max(float(np.linalg.norm(slopes[~kept])), -float((lam * linear).min(initial=0.0)))
        if unbalanced < least:
            best, least = (lam, slopes, kept), unbalanced
        if (kept == out).all():
            break
        out = kept
    assert best is not None
    return best


def _below_ceiling(v: Array, preference: Preference, losses: Array, spans: Array) -> Array:
    """How far each loss is below the worst one relative to v of ``F <= t v``, as a share of how much it varies; (k,).

    For other preferences all rows of the order count alike.
    """
    origin = np.zeros(len(v)) if preference.through is None else preference.through.numpy()
    heights = (losses - origin) / v
    size = float((np.minimum(np.abs(losses - origin), spans) / v).max()) or 1.0
    return np.asarray((heights - heights.max()) / size)


def _order_sizes(A: Array, jacobian: Array, seen: Seen, is_free: bool) -> Array:
    """The size that the gradient of each row of the order counts as having, (k,).

    A row that adds losses is measured by what it adds. One that subtracts is measured by itself, since what its losses
    have in common may be of any size. One row alone that no constraint holds has nothing to cancel with, and is
    measured against the largest seen.
    """
    largest = seen.order[: len(A)]
    added = np.abs(A) @ seen.gradients
    subtracts = (A < 0).any(axis=1)
    sizes = added
    if subtracts.any():
        sizes = np.where(subtracts, np.maximum(norms_of(A @ jacobian), SEEN_SHARE * largest), added)
    return np.maximum(sizes, largest) if is_free and len(A) == 1 else sizes


def _is_rising(preference: Preference) -> bool:
    """Whether the preference is a line along which every row of the order rises: then no row can be held."""
    return preference.ray is not None and bool((preference.A.numpy() @ preference.ray.numpy() > 0).all())


def _without_held_rows(program: Program, lam: Array, tol: float = ACTIVE) -> Array:
    """The multipliers where the order's rows that the constraints hold count for nothing."""
    k_f, inequalities = len(program.simplex), len(program.linear) - program.equalities
    active = program.linear[k_f:inequalities] >= -tol
    held = held_rows(program.rows[:k_f], program.rows[k_f:inequalities][active], program.rows[inequalities:])
    if not held.any():
        return lam
    if held.all():
        return np.zeros_like(lam)
    return solve_exact(replace(program, simplex=np.where(held, 0.0, program.simplex))).multipliers
