"""The steps that the runs propose: the elastic subprogram in the metric, within the trust radius and the bounds.

    minimise over d    c + d.M^-1 d / (2 eta) + rho (|G + B_g gradF^T d|_+ + |H + B_h gradF^T d|)
    subject to         A (F - z) + A gradF^T d <= c a,    lower <= x + d <= upper

Bounds cost no rows. The parameters that end at a bound are fixed there and the subprogram is solved in the metric of
the others, M reduced to a face of the box; a parameter that would cross its bound is fixed, one whose multiplier has
the wrong sign is freed, until neither is left (a primal-dual active-set method). The last set is the first guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ferero._arrays import Array, Mask
from ferero.optimize._evaluator import Indices
from ferero.optimize._metric import Face
from ferero.optimize._runs import Runs, norms_of
from ferero.subprogram import Program, solve_batched, solve_exact
from ferero.subprogram._batched import on_segment

__all__ = ["Proposal", "propose"]

FITS = 1.1  # step lengths up to this multiple of the radius are taken
SHORT = 0.8  # shorter ones are stretched to the radius while the metric says nothing about lengths
FITTING_ROUNDS = 12
FACE_ROUNDS = 8  # in which parameters may be freed again
MORE_ROUNDS = 25  # in which they are only fixed, so that the search for a face ends
MANY_RUNS = 4  # from which the batched subprogram pays
WRONG_SIGN = 1e-10  # of the slope: multipliers beyond this on the wrong side free their parameter


@dataclass(frozen=True)
class Proposal:
    """Steps and their predictions; arrays over the runs.

    Attributes:
        weights: w, (P, m).
        order_part: lam_f, (P, k_f).
        constraint_part: lam_g and lam_h of the scaled rows, (P, k_c).
        step: d, (P, n).
        length: |d|, (P,).
        eta: the proximal weight, (P,).
        slopes: ``gradF w``, and the bounds' multipliers where the step keeps a parameter at one, (P, n).
        residual: the same where parameters that are at their bound already, and stay there, do not count, (P,).
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
    slopes: Array
    residual: Array
    predicted: Array
    expected: Array
    left: Array

    def keep(self, runs: Mask) -> Proposal:
        """The masked runs' only."""
        return Proposal(**{name: value[runs] for name, value in vars(self).items()})


class _Subprograms:
    """The subprograms of all runs, whose solutions at a given eta are kept in its arrays."""

    def __init__(self, runs: Runs) -> None:
        merit, J = runs.merit, runs.jacobian
        self.runs, self.J = runs, J
        self.applied = runs.metric.apply(J)
        self.losses = runs.losses
        if runs.correcting.any():
            self.losses = runs.losses + runs.bend
        self.priced = bool(merit.price.any())
        self.rows = np.concatenate([merit.order, merit.rows], axis=1) if self.priced else merit.order
        P, n = runs.points.shape
        self.lam = np.zeros((P, self.rows.shape[1]))
        self.weights, self.step, self.length = np.zeros(runs.losses.shape), np.zeros((P, n)), np.zeros(P)
        self.energy = np.zeros(P)  # d.M^-1 d
        self.pull_back = np.zeros((P, n)) if runs.box is not None else None  # the bounds' multipliers
        self.gramian = self.applied @ J.transpose(0, 2, 1)
        self.linear = self._linear(np.arange(P), self.losses)

    def _linear(self, which: Indices, losses: Array) -> Array:
        """The rows' values at the given losses of some runs, the order's relative to the worst at the true ones."""
        merit = self.runs.merit
        if len(which) == len(self.runs):
            values = merit.order_values(losses)
            linear = values - merit.worst(values)[:, None] * merit.rates
            return np.concatenate([linear, merit.constraint_values(losses)], axis=1) if self.priced else linear
        moved = self.losses.copy()
        moved[which] = losses
        return np.asarray(self._linear(np.arange(len(self.runs)), moved)[which])

    def solve(self, which: Indices, eta: Array) -> None:
        """The solutions of the given runs, indices (R,), at eta (R,)."""
        if self.runs.held is None:
            lam = self._multipliers(which, eta, self.gramian[which], self.linear[which])
            self._keep(which, lam, eta, self.applied[which], None, self.gramian[which])
        else:
            self._solve_in_box(which, eta)

    def _solve_in_box(self, which: Indices, eta: Array) -> None:
        runs = self.runs
        box, held = runs.box, runs.held
        assert box is not None
        assert held is not None
        points = runs.points
        at_upper = held & (points >= box.upper)
        at_lower = held & (points <= box.lower) & ~at_upper
        is_fixed = box.lower == box.upper
        at_lower |= is_fixed
        for attempt in range(FACE_ROUNDS + MORE_ROUNDS):
            upper, lower = at_upper[which], at_lower[which]
            fixed = upper | lower
            self._solve_on_face(which, eta, fixed, np.where(upper, box.upper, box.lower) - points[which])
            ahead, multipliers = points[which] + self.step[which], self._bound_multipliers(which)
            over, under = (ahead > box.upper) & ~fixed, (ahead < box.lower) & ~fixed
            changed = over | under
            if attempt < FACE_ROUNDS:
                slack = WRONG_SIGN * np.abs(multipliers).max(axis=-1, keepdims=True)
                freed = ((upper & (multipliers < -slack)) | (lower & (multipliers > slack))) & ~is_fixed
                upper, lower, changed = upper & ~freed, lower & ~freed, changed | freed
            at_upper[which], at_lower[which] = upper | over, lower | under
            unsettled = changed.any(axis=-1)
            if not unsettled.any():
                break
            which, eta = which[unsettled], eta[unsettled]
        held[:] = at_upper | at_lower

    def _bound_multipliers(self, which: Indices) -> Array:
        assert self.pull_back is not None
        return np.asarray(self.pull_back[which])

    def _solve_on_face(self, which: Indices, eta: Array, fixed: Mask, step: Array) -> None:
        if not fixed.any():
            lam = self._multipliers(which, eta, self.gramian[which], self.linear[which])
            self._keep(which, lam, eta, self.applied[which], None, self.gramian[which])
            return
        J = self.J[which]
        face = self.runs.metric.on_face(which, J, self.applied[which], fixed, np.where(fixed, step, 0.0))
        gramian = face.applied @ J.transpose(0, 2, 1)
        linear = self.linear[which]
        if face.shift.any():
            linear = self._linear(which, self.losses[which] + (J @ face.shift[:, :, None])[:, :, 0])
        lam = self._multipliers(which, eta, gramian, linear)
        self._keep(which, lam, eta, face.applied, face, gramian)

    def _multipliers(self, which: Indices, eta: Array, gramian: Array, linear: Array) -> Array:
        merit = self.runs.merit
        parts = self.rows[which], eta[:, None, None] * gramian, linear, merit.rates[which], merit.price[which]
        return _multipliers(*parts, merit.equalities)

    def _keep(self, which: Indices, lam: Array, eta: Array, applied: Array, face: Face | None, gramian: Array) -> None:
        """``w = S^T lam``, ``d = shift - eta M gradF w``, ``|d|``, ``d.M^-1 d`` and the bounds' multipliers."""
        weights = (lam[:, None, :] @ self.rows[which])[:, 0]
        step = -eta[:, None] * (weights[:, None] @ applied)[:, 0]
        energy = eta * eta * (weights * (gramian @ weights[:, :, None])[:, :, 0]).sum(axis=-1)
        if face is not None:
            step = step + face.shift
            energy = energy + (face.shift * face.push).sum(axis=-1)
        self.lam[which], self.weights[which], self.step[which] = lam, weights, step
        self.length[which], self.energy[which] = norms_of(step), energy
        if self.pull_back is not None:
            back = 0.0 if face is None else -((face.pull @ weights[:, :, None])[:, :, 0] + face.push / eta[:, None])
            self.pull_back[which] = back


def propose(runs: Runs) -> Proposal:
    """Solve the subprogram with its first eta, then with eta brought down (or, lengths unknown, up) to the radius.

    The order's rows enter with their values, ``A (F - z)``, so that the rows that are not the worst may rise up to it.
    A step that is being corrected sees the losses plus the bend that its trial showed.
    """
    merit, J = runs.merit, runs.jacobian
    programs, eta = _Subprograms(runs), _first_eta(runs)
    programs.solve(np.arange(len(runs)), eta)
    for _ in range(FITTING_ROUNDS):
        ratio = programs.length / runs.radius
        misfit = ratio > FITS
        if not runs.metric.is_scaled.all():
            misfit |= ~runs.metric.is_scaled & (ratio < SHORT) & _has_room(runs)
        misfit &= programs.length > 0
        if not misfit.any():
            break
        eta[misfit] /= ratio[misfit]
        programs.solve(np.flatnonzero(misfit), eta[misfit])
    weights, step, length = programs.weights, programs.step, programs.length
    slopes = (weights[:, None] @ J)[:, 0]
    counted = slopes
    if runs.box is not None and runs.held is not None and programs.pull_back is not None:
        step, length, counted = _in_box(runs, programs)
        slopes = slopes + programs.pull_back
    along = (J @ step[:, :, None])[:, :, 0]
    ahead = programs.losses + along
    left = merit.violation(merit.constraint_values(ahead)).sum(axis=-1)
    energy = programs.energy
    curvature = np.where(runs.metric.is_scaled & ~runs.correcting, 0.5 * energy, 0.0)
    k_f = merit.order.shape[1]
    return Proposal(
        weights=weights,
        order_part=programs.lam[:, :k_f],
        constraint_part=programs.lam[:, k_f:] if programs.priced else np.zeros_like(runs.constraint_values),
        step=step,
        length=length,
        eta=eta,
        slopes=slopes,
        residual=norms_of(counted),
        predicted=runs.value - merit.worst(merit.order_values(ahead)) - merit.price * left - curvature,
        expected=-(weights * along).sum(axis=-1) - 0.5 * energy,
        left=left,
    )


def _has_room(runs: Runs) -> Mask:
    """Runs that some parameter is free to move in, (P,)."""
    if runs.held is None:
        return np.ones(len(runs), dtype=bool)
    return np.asarray(~runs.held.all(axis=-1))


def _in_box(runs: Runs, programs: _Subprograms) -> tuple[Array, Array, Array]:
    """Steps that end in the box to the last bit, their lengths, and the slopes of what is not at a bound for good."""
    assert runs.box is not None
    assert runs.held is not None
    box, points = runs.box, runs.points
    ahead = box.clip(points + programs.step)
    above = runs.held & (programs.step > 0)
    ahead = np.where(above, box.upper, np.where(runs.held & (programs.step < 0), box.lower, ahead))
    step = ahead - points
    stays = runs.held & ((points >= box.upper) | (points <= box.lower))
    slopes = (programs.weights[:, None] @ programs.J)[:, 0]
    return step, norms_of(step), np.where(stays, 0.0, slopes)


def _first_eta(runs: Runs) -> Array:
    """1, or while lengths are unknown what makes the longest gradient of a row as long as the radius; (P,)."""
    eta = np.ones(len(runs))
    unscaled = ~runs.metric.is_scaled
    if unscaled.any():
        gradients = runs.merit.order @ runs.jacobian
        rates = np.where(runs.merit.rates > 0, runs.merit.rates, np.inf)
        longest = (norms_of(gradients) / rates).max(axis=-1)
        eta[unscaled] = (runs.radius / np.where(longest > 0, longest, np.inf))[unscaled]
    return np.where(eta > 0, eta, 1.0)


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
