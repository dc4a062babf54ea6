"""Algorithm 1 with a trust radius and a quasi-Newton metric, for many runs at once.

Each round every run linearises, solves the elastic subprogram in its metric, shrinks the proximal weight eta until the
step fits its radius, and tries it. A step is taken only if the merit falls by a tenth of what the model predicts, so
the merit never rises. The radius starts from the size of the parameters (or of losses over gradients), grows after
good steps and shrinks after bad ones; nothing else in here has a unit.

Steps along a curved front are rejected although the weighted losses fell as expected: the losses bend apart, each by
its own curvature (the Maratos effect). Such a step is tried once more, corrected by the bend that the trial showed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ferero._arrays import Array, Mask
from ferero.optimize._evaluator import Evaluator
from ferero.optimize._merit import Merit
from ferero.optimize._metric import Metric, make_metric
from ferero.optimize._outcome import Outcome, Round, Seen
from ferero.optimize._scale import DIVERGED, gradient_scale, row_scale, still_counts
from ferero.subprogram import Program, solve_batched, solve_exact
from ferero.subprogram._batched import on_segment
from ferero.subprogram._program import EPSILON

__all__ = ["descend"]

FIRST_SHARE = 0.3  # of the first length scale that the first radius takes
RESET_SHARE = 1e-2  # of the first radius, after the metric was reset
BLIND_STEPS = 12  # longer and longer ones, before a plateau counts as one
FITS = 1.1  # step lengths up to this multiple of the radius are taken
SHORT = 0.8  # shorter ones are stretched to the radius while the metric says nothing about lengths
FITTING_ROUNDS = 12
MANY_RUNS = 4  # from which the batched subprogram pays
NEARLY_STATIONARY = 1e-3  # relative stationarity at which an unmet constraint raises its price
WITHOUT_PRICE = 1e-4  # the same for a line that has none yet
PRICE_GROWTH = 10.0
HIGHEST_PRICE = 1e8
STUCK_VIOLATION = 1e-3  # relative size of the violation's gradient below which it cannot be reduced
MOST_REJECTIONS = 30
MOST_RESETS = 2
HELD = 1e-5  # relative size of weights that counts as cancelled by the constraints
ACCEPTED_SHARE = 0.1  # of the predicted decrease that a step must bring
GOOD_SHARE = 0.75  # above which the radius grows
GROWTH = 2.5

IsOptimal = Callable[[int, Array, Array, Seen], bool]  # (run, losses, jacobian, what it has seen)


class Runs:
    """The runs still going.

    Attributes:
        ids: their indices, (P,).
        points, losses, jacobian: (P, n), (P, m), (P, m, n).
        first_losses: at the start, (P, m).
        norms, largest: of each loss's gradient, here and so far, (P, m).
        largest_order: of the gradient of each row that the preferences order by, so far, (P, k).
        radius, first_radius: the trust radius, (P,); resets: how often the metric was reset, (P,).
        bend: what a rejected step showed of the losses beyond first order, (P, m); zero unless ``correcting``.
        retreat: the radius to go back to if the correction fails, (P,).
        rejections: in a row; iterations: accepted steps; evaluations: (P,).
        raised_at: the iteration of the last rise of the price, (P,).
        order_values, constraint_values, violation, value: of the merit here, after `measure`.
        noise: differences of the merit that mean nothing, (P,).
    """

    def __init__(self, evaluator: Evaluator, points: Array, losses: Array, merit: Merit) -> None:
        P, n = points.shape
        self.ids = np.arange(P)
        self.points, self.losses, self.merit = points, losses, merit
        self.first_losses = losses
        self.largest, self.largest_order = np.zeros_like(losses), np.zeros(merit.asked.shape[:2])
        self.take(evaluator.jacobians(self.ids))
        self.radius = _first_radius(points, losses - merit.lower, self.norms)
        self.first_radius = self.radius
        self.resets = np.zeros(P, dtype=np.int64)
        self.metric: Metric = make_metric(P, n)
        self.bend = np.zeros_like(losses)
        self.correcting: Mask = np.zeros(P, dtype=bool)
        self.retreat = np.zeros(P)
        self.rejections = np.zeros(P, dtype=np.int64)
        self.iterations = np.zeros(P, dtype=np.int64)
        self.raised_at = np.full(P, -1)
        self.evaluations = np.full(P, 1 + evaluator.gradient_cost)

    def __len__(self) -> int:
        return len(self.ids)

    def measure(self) -> None:
        """Bring what the merit says of the current losses up to date."""
        merit = self.merit
        self.order_values = merit.order_values(self.losses)
        self.constraint_values = merit.constraint_values(self.losses)
        self.violation = merit.violation(self.constraint_values)
        self.value = merit.worst(self.order_values) + merit.price * self.violation.sum(axis=-1)
        self.noise = 4 * EPSILON * merit.magnitude(self.losses)

    def take(self, jacobian: Array) -> None:
        """The gradients of the current points, (P, m, n)."""
        self.jacobian, self.norms = jacobian, _norms(jacobian)
        self.largest = np.maximum(self.largest, self.norms)
        self.largest_order = np.maximum(self.largest_order, _norms(self.merit.asked @ jacobian))

    def seen(self, i: int) -> Seen:
        """The sizes that one run has met."""
        return Seen(self.first_losses[i], self.sizes()[i], self.largest_order[i])

    def sizes(self) -> Array:
        """The size that each loss's gradient counts as having, (P, m)."""
        return gradient_scale(self.norms, self.largest)

    def is_blind(self) -> Mask:
        """Runs without any curvature yet may be on a plateau whose slope only longer steps can show."""
        unscaled = ~self.metric.is_scaled
        if not unscaled.any():
            return unscaled
        return np.asarray(unscaled & (self.rejections < BLIND_STEPS) & (self.norms > 0).any(axis=-1))

    def keep(self, runs: Mask) -> None:
        """Forget the runs that are not masked."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, value[runs])
        self.merit.keep(runs)
        self.metric.keep(runs)

    def outcome(self, i: int, status: str) -> Outcome:
        """The end of one run."""
        steps = int(self.iterations[i])
        counts = steps, int(self.evaluations[i]), steps + 1
        return Outcome(status, self.points[i], self.losses[i], self.jacobian[i], self.seen(i), *counts)


def _norms(vectors: Array) -> Array:
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=-1)))


def _first_radius(points: Array, losses: Array, sizes: Array) -> Array:
    """The parameters' size, or less if a shorter step already brings every loss to its bound to first order; (P,)."""
    size = np.sqrt((points * points).sum(axis=-1))
    to_bound = np.where((losses > 0) & (sizes > 0), losses / np.where(sizes > 0, sizes, 1.0), 0.0).max(axis=-1)
    shortest = np.minimum(np.where(size > 0, size, np.inf), np.where(to_bound > 0, to_bound, np.inf))
    return np.asarray(FIRST_SHARE * np.where(np.isfinite(shortest), shortest, 1.0))


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


def _propose(runs: Runs) -> Proposal:
    """Solve the subprogram with its first eta, then with eta brought down (or, lengths unknown, up) to the radius.

    The order's rows enter with their values, ``A (F - z)``, so that the rows that are not the worst may rise up to it.
    A step that is being corrected sees the losses plus the bend that its trial showed.
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


@dataclass(frozen=True)
class Measures:
    """How far each run is from being done, (P,) each.

    Attributes:
        stationarity: ``|gradF w|`` relative to the order's part at its largest gradients.
        balance: relative to all parts at their largest gradients.
        decrement: the expected decrease of the weighted losses relative to them: what the next step can still bring.
        feasibility: the largest relative violation.
        exhausted: whether steps have become too small for the numbers to show, or were rejected too often.
    """

    stationarity: Array
    balance: Array
    decrement: Array
    feasibility: Array
    exhausted: Mask

    def keep(self, runs: Mask) -> Measures:
        """The masked runs' only."""
        return Measures(**{name: value[runs] for name, value in vars(self).items()})


def _measure(runs: Runs, proposal: Proposal) -> Measures:
    """The measures of the point that the proposal starts from, with its multipliers."""
    merit = runs.merit
    combined = (proposal.weights[:, None, :] @ runs.jacobian)[:, 0]
    size = np.sqrt((combined * combined).sum(axis=-1))
    sizes = runs.sizes()[:, :, None]
    order_part = (proposal.order_part * (np.abs(merit.order) @ sizes)[:, :, 0]).sum(axis=-1)
    all_parts = order_part
    if merit.price.any():
        all_parts = order_part + (np.abs(proposal.constraint_part) * (np.abs(merit.rows) @ sizes)[:, :, 0]).sum(axis=-1)
    relative = runs.violation / row_scale(merit.rows, merit.offsets, still_counts(runs.losses, runs.first_losses))
    weighted = (np.abs(proposal.weights) * np.abs(runs.losses - merit.lower)).sum(axis=-1)
    expected = np.where(runs.metric.is_scaled, proposal.expected, 0.0)
    moved = np.sqrt((runs.points * runs.points).sum(axis=-1))
    invisible = (proposal.predicted <= runs.noise) | (proposal.length <= EPSILON * moved)
    return Measures(
        stationarity=size / np.where(order_part > 0, order_part, np.inf),
        balance=size / np.where(all_parts > 0, all_parts, np.inf),
        decrement=expected / np.where(weighted > 0, weighted, np.inf),
        feasibility=relative.max(axis=-1, initial=0.0),
        exhausted=(invisible & ~runs.is_blind()) | (runs.rejections > MOST_REJECTIONS),
    )


def _judge(
    runs: Runs, proposal: Proposal, measures: Measures, is_optimal: IsOptimal, max_iter: int, tol: float
) -> dict[int, str]:
    """The status of each run that is done, by its place among those still going."""
    done: dict[int, str] = {}
    arrived = (measures.stationarity <= tol) & (measures.feasibility <= tol) & (measures.decrement <= tol)
    spent = runs.iterations >= max_iter
    underpriced = _needs_higher_price(runs, proposal, measures, tol)
    if not (arrived | measures.exhausted | spent | underpriced).any():
        return done
    unmet = measures.feasibility > tol
    for i in np.flatnonzero(arrived | measures.exhausted | spent | underpriced):
        is_candidate = arrived[i] or measures.exhausted[i] or spent[i]
        may_pay_more = unmet[i] and runs.merit.price[i] < HIGHEST_PRICE
        if is_candidate and is_optimal(int(runs.ids[i]), runs.losses[i], runs.jacobian[i], runs.seen(int(i))):
            done[int(i)] = "converged"
        elif unmet[i] and (measures.exhausted[i] or underpriced[i]) and _is_violation_stuck(runs, int(i), tol):
            done[int(i)] = "unattainable"
        elif measures.exhausted[i] and not may_pay_more and runs.resets[i] >= MOST_RESETS:
            done[int(i)] = "stalled"
        elif spent[i]:
            done[int(i)] = "max_iter"
    return done


def _restart(runs: Runs, measures: Measures, tol: float) -> Mask:
    """Reset the metric of exhausted runs before they are given up, since it may be at fault; returns which."""
    afresh = measures.exhausted & (runs.resets < MOST_RESETS)
    afresh &= ~((measures.feasibility > tol) & (runs.merit.price < HIGHEST_PRICE))
    if afresh.any():
        runs.metric.reset(afresh)
        runs.radius = np.where(afresh, RESET_SHARE * runs.first_radius, runs.radius)
        runs.rejections = np.where(afresh, 0, runs.rejections)
        runs.resets = runs.resets + afresh
    return np.asarray(afresh)


def _raise_prices(runs: Runs, proposal: Proposal, measures: Measures, tol: float) -> Mask:
    """Multiply the price where a violation would stay for good; returns where."""
    underpriced = _needs_higher_price(runs, proposal, measures, tol)
    underpriced |= (measures.feasibility > tol) & measures.exhausted
    underpriced |= _would_violate(runs, proposal, tol)
    underpriced &= runs.merit.price < HIGHEST_PRICE
    if underpriced.any():
        runs.merit.price = np.where(underpriced, np.maximum(PRICE_GROWTH * runs.merit.price, 1.0), runs.merit.price)
        runs.rejections = np.where(underpriced, 0, runs.rejections)
        runs.raised_at = np.where(underpriced, runs.iterations, runs.raised_at)
    return underpriced


def _needs_higher_price(runs: Runs, proposal: Proposal, measures: Measures, tol: float) -> Mask:
    """Runs nearly stationary under the present price, with a violation that the step would not reduce."""
    unreduced = (measures.feasibility > tol) & (proposal.left > 0.5 * runs.violation.sum(axis=-1))
    threshold = np.where(runs.merit.price > 0, NEARLY_STATIONARY, WITHOUT_PRICE)
    has_moved = runs.iterations > runs.raised_at
    return np.asarray(unreduced & (measures.balance <= threshold) & has_moved & ~runs.correcting)


def _would_violate(runs: Runs, proposal: Proposal, tol: float) -> Mask:
    """Runs whose step would violate a constraint further: the price is too low."""
    worse = proposal.left > (1.0 + tol) * runs.violation.sum(axis=-1) + tol
    return np.asarray(worse & (runs.merit.price > 0) & ~runs.correcting)


def _drop_held_rows(runs: Runs, proposal: Proposal) -> bool:
    """Take rows of the order that active constraints hold, whatever the gradients, out of it; returns whether any.

    Without this every point with ``f.c == 0.7`` would be optimal while c is among the objectives: c cannot fall, so
    not all of them can. What cannot be improved is taken out of the order, and the rest is minimised. A row that
    rests on an inequality could rise again in favour of the others, so a new inequality keeps it where it is, plus what
    the constraint still lacks.
    """
    if not runs.merit.price.any():
        return False
    part = proposal.order_part * np.abs(runs.merit.order).sum(axis=-1)
    size = part.sum(axis=-1)
    cancelled = np.abs(proposal.weights).max(axis=-1) <= HELD * size
    held = part > HELD * size[:, None]
    others = ((runs.merit.order != 0).any(axis=-1) & ~held).any(axis=-1)
    settled = proposal.predicted <= np.sqrt(EPSILON) * runs.merit.magnitude(runs.losses)
    drop = cancelled & others & settled
    if drop.any():
        inequalities = proposal.constraint_part[:, : proposal.constraint_part.shape[1] - runs.merit.equalities]
        by_inequality = (np.abs(inequalities) * np.abs(runs.merit.rows[:, : inequalities.shape[1]]).sum(axis=-1)).sum(
            axis=-1
        )
        held &= drop[:, None]
        owed = (inequalities * np.maximum(runs.constraint_values[:, : inequalities.shape[1]], 0.0)).sum(axis=-1)
        room = owed[:, None] / np.where(held, proposal.order_part, np.inf)
        runs.merit.hold(held & (by_inequality > HELD * size)[:, None], runs.losses, room)
        runs.merit.drop(held)
    return bool(drop.any())


def _is_violation_stuck(runs: Runs, i: int, tol: float) -> bool:
    """Whether the shortest subgradient of the violation vanishes: no first-order step reduces it."""
    merit = runs.merit
    rows, J, values = merit.rows[i], runs.jacobian[i], runs.constraint_values[i]
    scale = row_scale(rows, merit.offsets[i], still_counts(runs.losses[i], runs.first_losses[i]))
    is_equality = np.arange(len(rows)) >= len(rows) - merit.equalities
    violated = np.where(is_equality, np.abs(values), values) > tol * scale
    active = ~violated & (is_equality | (values > -tol * scale))
    pull = (np.sign(values) * violated) @ rows
    gramian = J @ J.T
    if active.any():
        equalities = int((active & is_equality).sum())
        linear = -rows[active] @ gramian @ pull
        program = Program(rows[active], gramian, linear, np.zeros(0), 1.0, equalities, 1.0)
        pull = pull + program.weights(solve_exact(program).multipliers)
    whole = float(np.abs(rows[violated]).sum(axis=0) @ runs.sizes()[i])
    return bool(np.linalg.norm(pull @ J) <= STUCK_VIOLATION * whole)


def descend(
    evaluator: Evaluator,
    points: Array,
    losses: Array,
    merit: Merit,
    is_optimal: IsOptimal,
    *,
    max_iter: int,
    tol: float,
    on_round: Callable[[Round], bool],
) -> list[Outcome]:
    """Runs every start to its end.

    Args:
        evaluator: the losses.
        points: starts, (P, n).
        losses: there, (P, m), the evaluator's last; runs where they are not finite end at once.
        merit: built for the losses at the starts.
        is_optimal: the certificate at the tolerance.
        max_iter: accepted steps per run.
        tol: on stationarity and relative feasibility.
        on_round: called after every round; True ends all runs.

    Returns:
        One outcome per start.
    """
    runs = Runs(evaluator, points, losses, merit)
    outcomes: dict[int, Outcome] = {}

    def end(done: dict[int, str]) -> Mask:
        for i, status in done.items():
            outcomes[int(runs.ids[i])] = runs.outcome(i, status)
        going = np.ones(len(runs), dtype=bool)
        going[list(done)] = False
        if done:
            runs.keep(going)
        return going

    end({int(i): "non_finite" for i in np.flatnonzero(~_is_finite(runs))})
    while len(runs):
        runs.measure()
        proposal = _propose(runs)
        if _drop_hopeless_corrections(runs, proposal) or _drop_held_rows(runs, proposal):
            continue
        measures = _measure(runs, proposal)
        done = _judge(runs, proposal, measures, is_optimal, max_iter, tol)
        if done:
            going = end(done)
            proposal, measures = proposal.keep(going), measures.keep(going)
        if not len(runs) or _raise_prices(runs, proposal, measures, tol).any():
            continue
        if not _restart(runs, measures, tol).any():
            end(_try(evaluator, runs, proposal, measures, on_round))
    return [outcomes[i] for i in range(len(points))]


def _is_finite(runs: Runs) -> Mask:
    return np.asarray(np.isfinite(runs.losses).all(axis=-1) & np.isfinite(runs.jacobian).all(axis=(1, 2)))


def _drop_hopeless_corrections(runs: Runs, proposal: Proposal) -> bool:
    """Drop corrections without a predicted decrease, which need no evaluation; returns whether any."""
    hopeless = runs.correcting & (proposal.predicted <= runs.noise)
    if not hopeless.any():
        return False
    runs.bend = np.where(hopeless[:, None], 0.0, runs.bend)
    runs.correcting = runs.correcting & ~hopeless
    runs.radius = np.where(hopeless, runs.retreat, runs.radius)
    return True


def _try(
    evaluator: Evaluator,
    runs: Runs,
    proposal: Proposal,
    measures: Measures,
    on_round: Callable[[Round], bool],
) -> dict[int, str]:
    """Evaluate the steps, take those that decrease the merit enough, update the metric; returns the runs that end."""
    trial = runs.points + proposal.step
    losses = evaluator.losses(trial)
    runs.evaluations += 1
    with np.errstate(invalid="ignore", over="ignore"):
        actual = runs.value - runs.merit.value(losses)
    actual[~np.isfinite(actual)] = -np.inf
    accepted = (actual >= ACCEPTED_SHARE * proposal.predicted) & (actual > 0)
    _resize(runs, proposal, losses, actual, accepted)
    done: dict[int, str] = {}
    if accepted.any():
        done = _move(evaluator, runs, proposal, trial, losses, accepted)
    violation, stationarity = measures.feasibility, measures.stationarity
    parts = runs.losses, proposal.weights, violation, stationarity, proposal.length, runs.points
    if on_round(Round(runs.ids, accepted, *parts)):
        return dict.fromkeys(range(len(runs)), "stopped")
    return done


def _resize(runs: Runs, proposal: Proposal, losses: Array, actual: Array, accepted: Mask) -> None:
    """Grow the radius after good steps. After a bad one whose weighted losses did fall, first correct the step for the
    curvature that it met; else shrink to where a parabola through value, slope and new value has its foot.
    """  # noqa: D205
    predicted, length = proposal.predicted, proposal.length
    with np.errstate(invalid="ignore", over="ignore"):
        change = losses - runs.losses
        fallen = -(proposal.weights * change).sum(axis=-1)
    as_modelled = runs.metric.is_scaled & ~runs.correcting & (fallen >= GOOD_SHARE * proposal.expected)
    is_good = (actual > GOOD_SHARE * predicted) | as_modelled
    grown = np.where(is_good, np.maximum(runs.radius, GROWTH * length), runs.radius)
    if accepted.all():
        runs.radius, runs.rejections = grown, np.zeros_like(runs.rejections)
        if runs.correcting.any():
            runs.correcting, runs.bend = np.zeros_like(runs.correcting), np.zeros_like(runs.bend)
        return
    shortfall = predicted - actual
    foot = 0.5 * predicted / np.where(shortfall > 0, shortfall, np.inf)
    tried = np.where(length > 0, length, runs.radius)  # where losses cancel, rounding may leave no step at all
    shrunk = np.where(runs.correcting, runs.retreat, tried * np.clip(foot, 0.1, 0.5))
    unseen = (np.abs(actual) <= runs.noise) & runs.is_blind()
    with np.errstate(invalid="ignore", over="ignore"):
        bend = change - (runs.jacobian @ proposal.step[:, :, None])[:, :, 0]
    correctable = ~accepted & runs.metric.is_scaled & ~runs.correcting & (fallen >= ACCEPTED_SHARE * proposal.expected)
    rejected = np.where(correctable, runs.radius, np.where(unseen, GROWTH * tried, shrunk))
    runs.retreat = shrunk
    runs.radius = np.where(accepted, grown, rejected)
    runs.rejections = np.where(accepted, 0, runs.rejections + 1)
    runs.correcting = correctable
    runs.bend = np.where(correctable[:, None], bend, 0.0)


def _move(
    evaluator: Evaluator, runs: Runs, proposal: Proposal, trial: Array, losses: Array, accepted: Mask
) -> dict[int, str]:
    """Take the accepted steps; runs whose losses or gradients diverge there stay and end."""
    moved = np.flatnonzero(accepted)
    jacobian = runs.jacobian.copy()
    jacobian[moved] = evaluator.jacobians(moved)
    runs.evaluations[moved] += evaluator.gradient_cost
    finite: Mask = np.asarray((np.abs(jacobian) < DIVERGED).all(axis=(1, 2)))
    finite &= ~accepted | (np.abs(losses) < DIVERGED).all(axis=-1)
    if not finite.all():
        jacobian = np.where(finite[:, None, None], jacobian, runs.jacobian)
        accepted &= finite
    weights = proposal.weights[:, None, :]
    change = (weights @ (jacobian - runs.jacobian))[:, 0]
    image = -proposal.eta[:, None] * (weights @ runs.jacobian)[:, 0]
    runs.metric.update(accepted, proposal.step, change, image)
    runs.points = np.where(accepted[:, None], trial, runs.points)
    runs.losses = np.where(accepted[:, None], losses, runs.losses)
    runs.take(jacobian)
    runs.iterations = runs.iterations + accepted
    runs.merit.renew(runs.losses)
    return {int(i): "non_finite" for i in np.flatnonzero(~finite)}
