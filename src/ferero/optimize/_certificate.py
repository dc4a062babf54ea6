"""The KKT certificate: how far any point is from first-order optimality, however it was found."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ferero._arrays import Array
from ferero.errors import InputError
from ferero.optimize._evaluator import Function, Point, make_evaluator
from ferero.optimize._merit import held_rows
from ferero.optimize._outcome import Seen
from ferero.optimize._scale import SEEN_SHARE, gradient_scale, row_scale, still_counts
from ferero.preference import Preference
from ferero.preference._assembly import no_preference
from ferero.subprogram import Program, solve_exact

__all__ = ["KKT", "certify", "check_count", "check_single", "kkt_of", "no_certificate"]

ACTIVE = 1e-6  # relative slack below which an inequality counts as active


@dataclass(frozen=True)
class KKT:
    """The paper's merit, each part relative: zero exactly at a point that meets the first-order conditions.

    Attributes:
        stationarity: ``|gradF w|`` over the largest gradient norm of a row of the order, for the best multipliers whose
            order part is a convex combination of the order's gradients at unit scale.
        complementarity: the largest ``lam_g [-G]_+`` with G relative to ``|B||F| + |b|`` and lam_g to unit gradients.
        feasibility: the largest ``[G]_+`` or ``|H|``, relative to ``|B||F| + |b|``.
        weights: the w of ``stationarity``, (m,), float64.
        multipliers: [lam_f; lam_g; lam_h] behind them, (k,).
    """

    stationarity: float
    complementarity: float
    feasibility: float
    weights: Array
    multipliers: Array

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
    fun: Function, x: Point, preference: Preference, *, x0: Point | None = None, jac: Function | None = None
) -> KKT:
    """How far ``x`` is from meeting the first-order conditions of the preference, however it was found.

    Stationarity is relative to the gradients at ``x`` of what is minimised, and to a small share of those at ``x0``
    (all of it for one expression that no constraint holds). Without an ``x0`` a point a tenth of the size of ``x`` away
    takes its place.

    Args:
        fun: ``fun(theta) -> (m,)``, as in `ferero.minimize`.
        x: the point.
        preference: a single preference.
        x0: where the search began.
        jac: ``jac(theta) -> (m, n)``, or None for automatic or central differences.

    Example:
        >>> import torch, ferero
        >>> fun = lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])
        >>> ferero.certify(fun, torch.zeros(3), ferero.Preference.ray([1.0, 1.0])).worst < 1e-9
        True
    """
    check_single(preference)
    losses, jacobian, point = _at(fun, x, jac)
    check_count(preference, len(losses))
    if not (np.isfinite(losses).all() and np.isfinite(jacobian).all()):
        return no_certificate(preference)
    away = _nearby(x, point) if x0 is None else x0
    first, slopes, _ = _at(fun, away, jac)
    first, slopes = np.nan_to_num(first), np.nan_to_num(slopes)
    norms = np.linalg.norm(jacobian, axis=1)
    gradients = gradient_scale(norms, np.maximum(norms, np.linalg.norm(slopes, axis=1)))
    seen = Seen(first, gradients, np.linalg.norm(preference.A.numpy() @ slopes, axis=1))
    return kkt_of(preference, losses, jacobian, seen)


def _at(fun: Function, x: Point, jac: Function | None) -> tuple[Array, Array, Array]:
    """F (m,), gradF^T (m, n) and the flat point (n,)."""
    evaluator, points = make_evaluator(fun, x, jac, 1)
    losses = evaluator.losses(points)[0]
    return losses, evaluator.jacobians(np.zeros(1, dtype=np.int64))[0], points[0]


def _nearby(x: Point, point: Array) -> Point:
    """A tenth of the point's size away (of 1 at the origin), the same in every coordinate."""
    size = float(np.linalg.norm(point)) or 1.0
    return x + 0.1 * size / np.sqrt(point.size)


def check_single(preference: Preference) -> None:
    """Refuses what is not one preference."""
    if not isinstance(preference, Preference):
        raise InputError(f"preference: {no_preference(preference)}.")
    if preference.members:
        raise InputError("preference: expected a single one, found a stack; use ferero.trace for several.")


def check_count(preference: Preference, found: int) -> None:
    """Refuses a function of another number of losses."""
    if found != preference.m:
        raise InputError(
            f"fun(x): expected {preference.m} losses, as the preference names them ({', '.join(preference.names)}), "
            f"found {found}."
        )


def no_certificate(preference: Preference) -> KKT:
    """The certificate of a point whose losses or gradients are not finite: infinite residuals."""
    rows = preference.A.shape[0] + preference.m_g + preference.m_h
    return KKT(np.inf, np.inf, np.inf, np.full(preference.m, np.nan), np.full(rows, np.nan))


def kkt_of(preference: Preference, losses: Array, jacobian: Array, seen: Seen) -> KKT:
    """The certificate from numbers alone.

    Rows of the order that active constraints hold up (``w = 0`` whatever the gradients) prove nothing; they are taken
    out, and the others must be stationary by themselves.

    Args:
        preference: a single one over m losses.
        losses: F, (m,).
        jacobian: gradF^T, (m, n).
        seen: the scales that count where losses or gradients vanish.
    """
    A, rows, b = _rows(preference)
    m_g, m_h, k_f = preference.m_g, preference.m_h, len(A)
    values = (rows[k_f:] @ losses + b) / row_scale(rows[k_f:], b, still_counts(losses, seen.losses))
    linear = np.zeros(len(rows))
    linear[k_f : k_f + m_g] = np.minimum(values[:m_g], 0.0)
    is_free = not m_h and bool((values < -ACTIVE).all())
    order = _order_sizes(A, jacobian, seen, is_free)
    scale = float(order.max()) or float(seen.gradients.max()) or 1.0
    unit = jacobian / scale
    sizes = np.concatenate([order, np.abs(rows[k_f:]) @ seen.gradients]) / scale
    sizes[sizes == 0] = 1.0
    rows[k_f:] /= sizes[k_f:, None]
    program = Program(rows, unit @ unit.T, linear, sizes[:k_f] / sizes[:k_f].max(), 1.0, m_h)
    lam = solve_exact(program).multipliers
    if len(b) and not _is_rising(preference):
        lam = _without_held_rows(program, lam)
    weights = lam @ rows
    combined = weights @ unit
    violated = max(float(values[:m_g].max(initial=0.0)), float(np.abs(values[m_g:]).max(initial=0.0)))
    complementarity = abs(float((lam * linear)[k_f : k_f + m_g].min(initial=0.0)))
    lam[k_f:] /= sizes[k_f:]
    return KKT(
        stationarity=float(np.sqrt(combined @ combined)),
        complementarity=complementarity,
        feasibility=violated,
        weights=weights,
        multipliers=lam,
    )


def _order_sizes(A: Array, jacobian: Array, seen: Seen, is_free: bool) -> Array:
    """The size that the gradient of each row of the order counts as having, (k,).

    A row that adds losses is measured by what it adds. One that subtracts is measured by itself, since what its losses
    have in common may be of any size. One row alone that no constraint holds has nothing to cancel with, and is
    measured against the largest seen.
    """
    largest = seen.order[: len(A)]
    added = np.abs(A) @ seen.gradients
    itself = np.maximum(np.linalg.norm(A @ jacobian, axis=1), SEEN_SHARE * largest)
    sizes = np.where((A < 0).any(axis=1), itself, added)
    return np.maximum(sizes, largest) if is_free and len(A) == 1 else sizes


def _rows(preference: Preference) -> tuple[Array, Array, Array]:
    """A, a fresh [A; B_g; B_h], and [b_g; b_h]."""
    A = preference.A.numpy()
    rows = np.concatenate([A, preference.B_g.numpy(), preference.B_h.numpy()])
    return A, rows, np.concatenate([preference.b_g.numpy(), preference.b_h.numpy()])


def _is_rising(preference: Preference) -> bool:
    """Whether the preference is a line along which every row of the order rises: then no row can be held."""
    return preference.ray is not None and bool((preference.A @ preference.ray > 0).all())


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
