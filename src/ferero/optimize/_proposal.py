"""The step that a run proposes: the elastic subprogram in the metric, within the trust radius and the bounds.

    minimise over d    c + d.M^-1 d / (2 eta) + rho (|G + B_g gradF^T d|_+ + |H + B_h gradF^T d|)
    subject to         A (F - z) + A gradF^T d <= c a,    lower <= x + d <= upper

Bounds cost no rows. The parameters that end at a bound are fixed there and the subprogram is solved in the metric of
the others, M reduced to a face of the box; a parameter that would cross its bound is fixed, one whose multiplier has
the wrong sign is freed, until neither is left (a primal-dual active-set method). The last set is the first guess.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ferero._arrays import Array, Mask
from ferero.optimize._box import Box
from ferero.optimize._metric import Face
from ferero.optimize._run import Run
from ferero.optimize._scale import norm, norms_of
from ferero.subprogram import Program, solve_exact
from ferero.subprogram._exact import lowest_share

__all__ = ["Proposal", "propose"]

FITS = 1.1  # step lengths up to this multiple of the radius are taken
SHORT = 0.8  # shorter ones are stretched to the radius while the metric says nothing about lengths
FITTING_ROUNDS = 12
STRETCH = 10.0  # the most that eta grows by at once
LONGER = 1.01  # what a step must gain by it, or stretching it further would only stretch its rounding
FACE_ROUNDS = 8  # in which parameters may be freed again
MORE_ROUNDS = 25  # in which they are only fixed, so that the search for a face ends
WRONG_SIGN = 1e-10  # of the slope: multipliers beyond this on the wrong side free their parameter


class Proposal(NamedTuple):
    """A step and its predictions.

    Attributes:
        weights: w, (m,).
        order_part: lam_f, (k_f,).
        constraint_part: lam_g and lam_h of the scaled rows, (k_c,).
        step: d, (n,).
        length: |d|.
        eta: the proximal weight.
        slopes: ``gradF w``, and the bounds' multipliers where the step keeps a parameter at one, (n,).
        residual: the norm of the same where parameters that are at their bound already, and stay there, do not count.
        predicted: decrease of the merit.
        expected: decrease of the weighted losses.
        left: linearised violation after the step.
    """

    weights: Array
    order_part: Array
    constraint_part: Array
    step: Array
    length: float
    eta: float
    slopes: Array
    residual: float
    predicted: float
    expected: float
    left: float


class _StepAtEta(NamedTuple):
    """The solution at one eta: lam (k,), w (m,), d (n,), ``|d|``, ``d.M^-1 d``, and the bounds' multipliers (n,)."""

    multipliers: Array
    weights: Array
    step: Array
    length: float
    energy: float
    pull_back: Array | None = None


class _Subprogram:
    """A run's subprogram, to be solved at any eta."""

    def __init__(self, run: Run) -> None:
        merit = run.merit
        self.run, self.is_priced = run, merit.price > 0
        self.losses = run.losses if run.bend is None else run.losses + run.bend
        self.rows = merit.stacked if self.is_priced else merit.order
        self.linear = self._linear(self.losses)
        self.inside: Program | None = None  # where no parameter is at a bound

    def _linear(self, losses: Array) -> Array:
        """The rows' values at the given losses, the order's relative to the worst at the true ones."""
        merit = self.run.merit
        values = merit.order_values(losses)
        linear = values - merit.worst(values) * merit.rates
        return np.concatenate([linear, merit.constraint_values(losses)]) if self.is_priced else linear

    def solve(self, eta: float) -> _StepAtEta:
        """The solution at eta."""
        return self._solve_inside(eta) if self.run.box is None else self._solve_in_box(eta, self.run.box)

    def _solve_in_box(self, eta: float, box: Box) -> _StepAtEta:
        run = self.run
        point, held, is_fixed = run.point, run.held, box.is_fixed
        assert held is not None
        if held.any():
            at_upper = held & (point >= box.upper)
            at_lower = held & (point <= box.lower) & ~at_upper | is_fixed
        else:
            at_upper, at_lower = held, is_fixed
        for attempt in range(FACE_ROUNDS + MORE_ROUNDS):
            fixed = at_upper | at_lower
            is_any = bool(fixed.any())
            solution = self._solve_on_face(eta, fixed, at_upper, box) if is_any else self._solve_inside(eta)
            ahead = point + solution.step
            over, under = ahead > box.upper, ahead < box.lower
            if is_any:
                free = ~fixed
                over, under = over & free, under & free
            changed = over | under
            if is_any and attempt < FACE_ROUNDS:
                multipliers = solution.pull_back
                assert multipliers is not None
                slack = WRONG_SIGN * np.abs(multipliers).max()
                freed = ((at_upper & (multipliers < -slack)) | (at_lower & (multipliers > slack))) & ~is_fixed
                at_upper, at_lower, changed = at_upper & ~freed, at_lower & ~freed, changed | freed
            if not changed.any():
                break
            at_upper, at_lower = at_upper | over, at_lower | under
        run.held = at_upper | at_lower
        return solution

    def _solve_inside(self, eta: float) -> _StepAtEta:
        if self.inside is None:
            self.inside = self._program(self.run.gramian, self.linear)
        return self._solution(eta, self.inside, self.run.applied, None)

    def _solve_on_face(self, eta: float, fixed: Mask, at_upper: Mask, box: Box) -> _StepAtEta:
        run = self.run
        J = run.jacobian
        step = np.where(fixed, np.where(at_upper, box.upper, box.lower) - run.point, 0.0)
        face = run.metric.on_face(J, run.applied, fixed, step)
        linear = self._linear(self.losses + J @ face.shift) if face.shift.any() else self.linear
        return self._solution(eta, self._program(face.applied @ J.T, linear), face.applied, face)

    def _program(self, gramian: Array, linear: Array) -> Program:
        """The dual at eta = 1."""
        merit = self.run.merit
        equalities, bound = (merit.equalities, merit.price) if self.is_priced else (0, math.inf)
        return Program(self.rows, gramian, linear, merit.rates, 1.0, equalities, bound)

    def _solution(self, eta: float, program: Program, applied: Array, face: Face | None) -> _StepAtEta:
        """``w = S^T lam``, ``d = shift - eta M gradF w``, ``|d|``, ``d.M^-1 d`` and the bounds' multipliers."""
        lam = self._multipliers(eta, program)
        weights = lam @ self.rows
        step = -eta * (weights @ applied)
        energy = eta * eta * float(weights.dot(program.gramian @ weights))
        if face is None:
            return _StepAtEta(lam, weights, step, norm(step), energy)
        step += face.shift
        energy += float(face.shift.dot(face.push))
        return _StepAtEta(lam, weights, step, norm(step), energy, -(face.pull @ weights + face.push / eta))

    def _multipliers(self, eta: float, program: Program) -> Array:
        """Lam, (k,), at eta."""
        if len(program.linear) == len(program.simplex) == 2 and program.simplex.all():
            return _on_segment(eta, program)
        last = self.run.multipliers
        guess = last if last is not None and len(last) == len(program.linear) else None
        scaled = program if eta == 1.0 else program.stretched(eta)
        self.run.multipliers = solve_exact(scaled, guess).multipliers
        return self.run.multipliers


def _on_segment(eta: float, program: Program) -> Array:
    """The lam (2,) >= 0 with ``a.lam = 1`` and the least ``eta lam.Q lam / 2 - q.lam``, in plain numbers."""
    (own, mixed), (_, other) = program.quadratic.tolist()
    first, second = (1.0 / rate for rate in program.simplex.tolist())
    gain, loss = program.linear.tolist()
    share = lowest_share(
        eta * own * first * first,
        eta * mixed * first * second,
        eta * other * second * second,
        gain * first - loss * second,
    )
    return np.array([share * first, (1.0 - share) * second])


def propose(run: Run) -> Proposal:
    """Solve the subprogram with its first eta, then with eta brought down (or, lengths unknown, up) to the radius.

    The order's rows enter with their values, ``A (F - z)``, so that the rows that are not the worst may rise up to it.
    A step that is being corrected sees the losses plus the bend that its trial showed.
    """
    merit, J, is_scaled = run.merit, run.jacobian, run.metric.is_scaled
    program, eta = _Subprogram(run), 1.0 if is_scaled else _first_eta(run)
    solution = program.solve(eta)
    for _ in range(FITTING_ROUNDS):
        ratio = solution.length / run.radius
        is_misfit = ratio > FITS or (not is_scaled and ratio < SHORT and _has_room(run))
        if not is_misfit or not solution.length > 0:
            break
        if ratio > 1:
            eta /= ratio
            solution = program.solve(eta)
            continue
        stretched = eta * min(1.0 / ratio, STRETCH)
        longer = program.solve(stretched)
        if longer.length < LONGER * solution.length:
            break
        eta, solution = stretched, longer
    weights, step, length = solution.weights, solution.step, solution.length
    slopes = counted = weights @ J
    if run.box is not None:
        step, length, counted = _in_box(run, run.box, step, slopes)
        if solution.pull_back is not None:
            slopes = slopes + solution.pull_back
    along = J @ step
    ahead = program.losses + along
    left = sum(merit.violations(merit.constraint_values(ahead)))
    curvature = 0.5 * solution.energy if is_scaled and run.bend is None else 0.0
    k_f = len(merit.rates)
    return Proposal(
        weights=weights,
        order_part=solution.multipliers[:k_f],
        constraint_part=solution.multipliers[k_f:] if program.is_priced else np.zeros(len(merit.offsets)),
        step=step,
        length=length,
        eta=eta,
        slopes=slopes,
        residual=norm(counted),
        predicted=run.value - merit.worst(merit.order_values(ahead)) - merit.price * left - curvature,
        expected=-float(weights.dot(along)) - 0.5 * solution.energy,
        left=left,
    )


def _has_room(run: Run) -> bool:
    """Whether some parameter is free to move."""
    return run.held is None or not run.held.all()


def _in_box(run: Run, box: Box, step: Array, slopes: Array) -> tuple[Array, float, Array]:
    """The step that ends in the box to the last bit, its length, and the slopes of what is not at a bound for good."""
    point, held = run.point, run.held
    assert held is not None
    ahead = box.clip(point + step)
    if held.any():
        ahead = np.where(held & (step > 0), box.upper, np.where(held & (step < 0), box.lower, ahead))
        slopes = np.where(held & ((point >= box.upper) | (point <= box.lower)), 0.0, slopes)
    step = ahead - point
    return step, norm(step), slopes


def _first_eta(run: Run) -> float:
    """While lengths are unknown: what makes the longest gradient of a row as long as the radius."""
    merit = run.merit
    gradients = norms_of(merit.order @ run.jacobian)
    pairs = zip(gradients.tolist(), merit.rates.tolist(), strict=True)
    longest = max((size / rate for size, rate in pairs if rate > 0), default=0.0)
    eta = run.radius / longest if longest > 0 else 0.0
    return eta if eta > 0 else 1.0
