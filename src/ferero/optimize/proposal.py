"""The step each run would like to take: the elastic subprogram in its metric, made to fit its radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ferero.optimize.merit import Mask
from ferero.optimize.runs import Runs
from ferero.subprogram import Program, solve_batched, solve_exact
from ferero.subprogram.program import Array
from ferero.subprogram.segment import on_segment

__all__ = ["Proposal", "propose"]

FITS = 1.1  # step lengths up to this multiple of the radius are taken
SHORT = 0.8  # shorter ones are stretched to the radius while the metric says nothing about lengths
FITTING_ROUNDS = 12
MANY_RUNS = 4  # from which the batched subprogram pays


@dataclass(frozen=True)
class Proposal:
    """Steps and what they promise; arrays over the runs.

    Attributes:
        weights: w, (P, m).
        order_part: lam_f, (P, k_f).
        constraint_part: lam_g and lam_h of the scaled rows, (P, k_c).
        step: d, (P, n).
        length: |d|, (P,).
        eta: the proximal weight, (P,).
        predicted: decrease of the merit, (P,).
        expected: decrease of the weighted losses, (P,).
        left: linearised violation after the step, (P,).
    """

    weights: Array
    order_part: Array
    constraint_part: Array
    step: Array
    length: Array
    eta: Array
    predicted: Array
    expected: Array
    left: Array

    def keep(self, runs: Mask) -> Proposal:
        """The masked runs' only."""
        return Proposal(**{name: value[runs] for name, value in vars(self).items()})


def propose(runs: Runs) -> Proposal:
    """Solve the subprogram with its first eta, then with eta brought down (or, lengths unknown, up) to the radius.

    The order's rows enter with their values, ``A (F - z)``, so that the rows that are not the worst may rise up to it.
    A step that is being corrected sees the losses bent by what it met when it was tried.
    """
    merit, J = runs.merit, runs.jacobian
    JM = runs.metric.apply(J)
    gramian = JM @ J.transpose(0, 2, 1)
    bent, order_values, values = runs.losses, runs.order_values, runs.constraint_values
    if runs.correcting.any():
        bent = runs.losses + runs.bend
        order_values, values = merit.order_values(bent), merit.constraint_values(bent)
    linear = order_values - merit.worst(order_values)[:, None] * merit.rates
    rows, priced, k_f = merit.order, bool(merit.price.any()), merit.order.shape[1]
    if priced:
        rows, linear = np.concatenate([rows, merit.rows], axis=1), np.concatenate([linear, values], axis=1)
    eta = _first_eta(runs)
    lam = _multipliers(rows, eta[:, None, None] * gramian, linear, merit.rates, merit.price, merit.equalities)
    weights, step, length = _steps(lam, rows, JM, eta)
    for _ in range(FITTING_ROUNDS):
        ratio = length / runs.radius
        misfit = ((ratio > FITS) | (~runs.metric.is_scaled & (ratio < SHORT))) & (length > 0)
        if not misfit.any():
            break
        eta[misfit] /= ratio[misfit]
        part = rows[misfit], eta[misfit, None, None] * gramian[misfit], linear[misfit]
        lam[misfit] = _multipliers(*part, merit.rates[misfit], merit.price[misfit], merit.equalities)
        weights[misfit], step[misfit], length[misfit] = _steps(lam[misfit], rows[misfit], JM[misfit], eta[misfit])
    ahead = bent + (J @ step[:, :, None])[:, :, 0]
    left = merit.violation(merit.constraint_values(ahead)).sum(axis=-1)
    along = (weights * (gramian @ weights[:, :, None])[:, :, 0]).sum(axis=-1)
    curvature = np.where(runs.metric.is_scaled & ~runs.correcting, 0.5 * eta * eta * along, 0.0)
    return Proposal(
        weights=weights,
        order_part=lam[:, :k_f],
        constraint_part=lam[:, k_f:] if priced else np.zeros_like(values),
        step=step,
        length=length,
        eta=eta,
        predicted=runs.value - merit.worst(merit.order_values(ahead)) - merit.price * left - curvature,
        expected=(eta - 0.5 * eta * eta) * along,
        left=left,
    )


def _first_eta(runs: Runs) -> Array:
    """1, or while lengths are unknown what makes the longest gradient of a row as long as the radius; (P,)."""
    eta = np.ones(len(runs))
    unscaled = ~runs.metric.is_scaled
    if unscaled.any():
        gradients = runs.merit.order @ runs.jacobian
        rates = np.where(runs.merit.rates > 0, runs.merit.rates, np.inf)
        longest = (np.sqrt((gradients * gradients).sum(axis=-1)) / rates).max(axis=-1)
        eta[unscaled] = (runs.radius / np.where(longest > 0, longest, np.inf))[unscaled]
    return np.where(eta > 0, eta, 1.0)


def _steps(lam: Array, rows: Array, JM: Array, eta: Array) -> tuple[Array, Array, Array]:
    """``w = S^T lam``, ``d = -eta M gradF w`` and ``|d|``."""
    weights = lam[:, None, :] @ rows
    step = -eta[:, None] * (weights @ JM)[:, 0]
    return weights[:, 0], step, np.sqrt((step * step).sum(axis=-1))


def _multipliers(rows: Array, gramian: Array, linear: Array, rates: Array, price: Array, equalities: int) -> Array:
    """The subprograms of R runs, (R, k); constraint rows are present only if some run has a price."""
    k_f, priced = rates.shape[1], rows.shape[1] > rates.shape[1]
    if rows.shape[1] == k_f == 2 and rates.all():
        return on_segment(rows @ gramian @ rows.transpose(0, 2, 1), linear, rates)
    if len(rows) >= MANY_RUNS:
        S, K, q, a, rho = (
            torch.from_numpy(np.ascontiguousarray(array)) for array in (rows, gramian, linear, rates, price)
        )
        total = torch.ones(len(rows), dtype=torch.float64)
        return np.asarray(solve_batched(S, K, q, a, total, equalities if priced else 0, rho)[0].numpy())
    out = np.zeros(linear.shape)
    for i in range(len(rows)):
        used, count = (rows.shape[1], equalities) if price[i] > 0 else (k_f, 0)
        bound = float(price[i]) or np.inf
        program = Program(rows[i, :used], gramian[i], linear[i, :used], rates[i], 1.0, count, bound)
        out[i, :used] = solve_exact(program).multipliers
    return out
