"""First-order optimality of any point, measured independently of whoever found it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ferero.errors import InputError
from ferero.optimize.evaluator import Function, Point, make_evaluator
from ferero.optimize.scale import gradient_scale, row_scale
from ferero.preference import Preference
from ferero.subprogram import Program, solve_exact
from ferero.subprogram.program import Array

__all__ = ["HELD", "KKT", "certify", "check_count", "check_single", "kkt_of", "no_certificate"]

HELD = 1e-5  # relative size of weights that counts as cancelled by the constraints


@dataclass(frozen=True)
class KKT:
    """The paper's merit, each part relative: zero exactly at a point that meets the first-order conditions.

    Attributes:
        stationarity: ``|gradF w|`` over the largest gradient norm, for the best multipliers whose order part is a
            convex combination of the order's gradients at unit scale.
        complementarity: the largest ``lam_g [-G]_+`` with G relative to ``|B||F| + |b|``.
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
    """How far ``x`` is from meeting the first-order conditions of the preference, whoever found it.

    Stationarity is relative to the largest gradient norm at ``x``, and to a small share of that at ``x0`` (all of it for
    one objective alone). Without an ``x0`` a point a tenth of the size of ``x`` away takes its place.

    Args:
        fun: ``fun(theta) -> (m,)``, as in `ferero.minimize`.
        x: the point.
        preference: what was asked for.
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
    norms = np.linalg.norm(jacobian, axis=1)
    away = _nearby(x, point) if x0 is None else x0
    largest = np.linalg.norm(_at(fun, away, jac)[1], axis=1)
    return kkt_of(preference, losses, jacobian, gradient_scale(norms, np.maximum(norms, np.nan_to_num(largest))))


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
        raise InputError(f"preference: expected a ferero.Preference, found {type(preference).__name__}.")
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
    """What can be said where losses or gradients are not finite."""
    rows = preference.A.shape[0] + preference.m_g + preference.m_h
    return KKT(np.inf, np.inf, np.inf, np.full(preference.m, np.nan), np.full(rows, np.nan))


def kkt_of(preference: Preference, losses: Array, jacobian: Array, gradient_sizes: Array) -> KKT:
    """The certificate from numbers alone.

    Rows of the order that active constraints hold up (``w = 0`` whatever the gradients) prove nothing; they are taken
    out, and the others must be stationary by themselves.

    Args:
        preference: a single one over m losses.
        losses: F, (m,).
        jacobian: gradF^T, (m, n).
        gradient_sizes: the norm that each loss's gradient counts as having, (m,).
    """
    A, rows, b = _rows(preference)
    m_g, m_h, k_f = preference.m_g, preference.m_h, len(A)
    size = row_scale(rows[k_f:], b, losses)
    rows[k_f:] /= size[:, None]
    values = rows[k_f:] @ losses + b / size
    linear = np.zeros(len(rows))
    linear[k_f : k_f + m_g] = np.minimum(values[:m_g], 0.0)
    scale = float(gradient_sizes.max()) or 1.0
    unit = jacobian / scale
    rates = np.abs(A) @ gradient_sizes / scale
    rates[rates == 0] = 1.0
    program = Program(rows, unit @ unit.T, linear, rates / rates.max(), 1.0, m_h)
    lam = solve_exact(program).multipliers
    if len(b):
        lam = _without_held_rows(program, lam)
    weights = lam @ rows
    combined = weights @ unit
    violated = max(float(values[:m_g].max(initial=0.0)), float(np.abs(values[m_g:]).max(initial=0.0)))
    lam[k_f:] /= size
    return KKT(
        stationarity=float(np.sqrt(combined @ combined)),
        complementarity=abs(float((lam[k_f : k_f + m_g] * size[:m_g] * linear[k_f : k_f + m_g]).min(initial=0.0))),
        feasibility=violated,
        weights=weights,
        multipliers=lam,
    )


def _rows(preference: Preference) -> tuple[Array, Array, Array]:
    """A, a fresh [A; B_g; B_h], and [b_g; b_h]."""
    A = preference.A.numpy()
    rows = np.concatenate([A, preference.B_g.numpy(), preference.B_h.numpy()])
    return A, rows, np.concatenate([preference.b_g.numpy(), preference.b_h.numpy()])


def _without_held_rows(program: Program, lam: Array) -> Array:
    """The multipliers where the order's rows that the constraints hold count for nothing, as often as there are any."""
    k_f = len(program.simplex)
    while (held := _held(lam[:k_f] * (program.simplex > 0), program.rows[:k_f], program.weights(lam))).any():
        program = replace(program, simplex=np.where(held, 0.0, program.simplex))
        if not program.simplex.any():
            return np.zeros_like(lam)
        lam = solve_exact(program).multipliers
    return lam


def _held(lam_f: Array, A: Array, weights: Array) -> NDArray[np.bool_]:
    """The order's rows in a combination that the constraints cancel, none if it does not vanish."""
    size = float(np.abs(lam_f[:, None] * A).sum())
    if np.abs(weights).max() > HELD * size:
        return np.zeros(len(A), dtype=bool)
    return np.asarray(lam_f * np.abs(A).sum(axis=1) > HELD * size)
