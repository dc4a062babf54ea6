"""Algorithm 1 with a trust radius and a quasi-Newton metric, for many runs at once.

Each round every run linearises, solves the elastic subprogram in its metric, shrinks the proximal weight eta until the
step fits its radius, and tries it. A step is taken only if the merit falls by a tenth of what the model predicts, so
the merit never rises. The radius starts from the size of the parameters (or of losses over gradients), grows after
good steps and shrinks after bad ones; nothing else in here has a unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ferero.optimize.evaluator import Evaluator
from ferero.optimize.merit import Merit
from ferero.optimize.metric import Metric, make_metric
from ferero.subprogram import Program, solve_batched, solve_exact
from ferero.subprogram.program import EPSILON, Array

__all__ = ["Outcome", "Round", "descend"]

ACCEPTED_SHARE = 0.1  # of the predicted decrease that a step must bring
GOOD_SHARE = 0.75  # above which the radius grows
GROWTH = 2.5
FITS = 1.1  # step lengths up to this multiple of the radius are taken
NEARLY_STATIONARY = 0.01  # relative stationarity at which an unmet constraint raises its price
PRICE_GROWTH = 10.0
STUCK_VIOLATION = 1e-3  # relative size of the violation's gradient below which it cannot be reduced
HIGHEST_PRICE = 1e8
MOST_REJECTIONS = 30
BLIND_STEPS = 12  # longer and longer ones, before a plateau is believed
FIRST_SHARE = 0.3  # of the first length scale that the first radius takes
FITTING_ROUNDS = 12
MANY_RUNS = 4  # from which the batched subprogram pays
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Round:
    """What all runs that were still going did in one round; arrays over those runs.

    Attributes:
        runs: their indices, (R,).
        accepted: which of them moved, (R,).
        losses: where they are after it, (R, m).
        weights: w, (R, m).
        violation: the largest relative violation before the step, (R,).
        stationarity: before the step, (R,).
        length: of the step tried, (R,).
        points: where they are after it, (R, n).
    """

    runs: NDArray[np.int64]
    accepted: Mask
    losses: Array
    weights: Array
    violation: Array
    stationarity: Array
    length: Array
    points: Array


@dataclass(frozen=True)
class Outcome:
    """How one run ended."""

    status: str
    point: Array
    losses: Array
    jacobian: Array
    gradient_sizes: Array
    iterations: int
    evaluations: int
    gradient_evaluations: int


@dataclass(frozen=True)
class _Proposal:
    weights: Array  # w, (P, m)
    order_part: Array  # lam_f, (P, k_f)
    constraint_part: Array  # (P, k_c)
    step: Array  # d, (P, n)
    length: Array  # |d|, (P,)
    eta: Array  # (P,)
    predicted: Array  # decrease of the merit, (P,)
    expected: Array  # decrease of the weighted losses, (P,)
    left: Array  # linearised violation after the step, (P,)

    def keep(self, runs: Mask) -> _Proposal:
        return _Proposal(**{name: value[runs] for name, value in vars(self).items()})


@dataclass
class _Runs:
    """The runs still going: where they are and what they know."""

    ids: NDArray[np.int64]
    points: Array
    losses: Array
    jacobian: Array
    sizes: Array  # largest gradient norm of each loss so far, (P, m)
    radius: Array
    bend: Array  # what a rejected step showed of the losses beyond first order, (P, m); zero where the step is not being corrected
    retreat: Array  # the radius to go back to if the correction fails, (P,)
    rejections: NDArray[np.int64]
    iterations: NDArray[np.int64]
    evaluations: NDArray[np.int64]
    merit: Merit
    metric: Metric

    def keep(self, runs: Mask) -> None:
        for name in ("ids", "points", "losses", "jacobian", "sizes", "radius", "bend", "retreat", "rejections", "iterations", "evaluations"):
            setattr(self, name, getattr(self, name)[runs])
        self.merit.keep(runs)
        self.metric.keep(runs)

    def outcome(self, i: int, status: str) -> Outcome:
        return Outcome(
            status,
            self.points[i],
            self.losses[i],
            self.jacobian[i],
            self.sizes[i],
            int(self.iterations[i]),
            int(self.evaluations[i]),
            int(self.iterations[i]) + 1,
        )


def descend(
    evaluator: Evaluator,
    points: Array,
    losses: Array,
    merit: Merit,
    is_optimal: Callable[[int, Array, Array, Array], bool],
    *,
    max_iter: int,
    tol: float,
    on_round: Callable[[Round], bool] = lambda _: False,
) -> list[Outcome]:
    """Runs every start to its end.

    Args:
        evaluator: the losses.
        points: starts, (P, n).
        losses: there, (P, m), the evaluator's last; runs where they are not finite end at once.
        merit: built for the losses at the starts.
        is_optimal: ``(run, losses, jacobian, gradient sizes) -> bool``, the certificate at the tolerance.
        max_iter: accepted steps per run.
        tol: on stationarity and relative feasibility.
        on_round: called after every round; True ends all runs.

    Returns:
        One outcome per start.
    """
    runs = _begin(evaluator, points, losses, merit)
    outcomes: dict[int, Outcome] = {}
    finite = np.isfinite(runs.losses).all(axis=-1) & np.isfinite(runs.jacobian).all(axis=(1, 2))
    for i in np.flatnonzero(~finite):
        outcomes[int(i)] = runs.outcome(i, "non_finite")
    runs.keep(finite)
    while len(runs.ids):
        proposal = _propose(runs)
        if _drop_hopeless_corrections(runs, proposal).any():
            continue
        if _drop_held_rows(runs, proposal).any():
            continue
        measures = _measure(runs, proposal)
        verdicts = _judge(runs, proposal, measures, is_optimal, max_iter, tol)
        going = np.array([verdict is None for verdict in verdicts])
        if not going.all():
            for i in np.flatnonzero(~going):
                outcomes[int(runs.ids[i])] = runs.outcome(i, str(verdicts[i]))
            runs.keep(going)
            if not len(runs.ids):
                break
            proposal, measures = proposal.keep(going), measures.keep(going)
        raised = _raise_prices(runs, proposal, measures, tol)
        if raised.any():
            continue
        done = _try(evaluator, runs, proposal, measures, on_round)
        for i, status in done.items():
            outcomes[int(runs.ids[i])] = runs.outcome(i, status)
        if done:
            runs.keep(np.array([i not in done for i in range(len(runs.ids))]))
    return [outcomes[i] for i in range(len(points))]


def _begin(evaluator: Evaluator, points: Array, losses: Array, merit: Merit) -> _Runs:
    P, n = points.shape
    jacobian = evaluator.jacobians(np.arange(P))
    sizes = np.sqrt((jacobian * jacobian).sum(axis=-1))
    return _Runs(
        ids=np.arange(P),
        points=points,
        losses=losses,
        jacobian=jacobian,
        sizes=sizes,
        radius=_first_radius(points, losses - merit.lower, sizes),
        bend=np.zeros_like(losses),
        retreat=np.zeros(P),
        rejections=np.zeros(P, dtype=np.int64),
        iterations=np.zeros(P, dtype=np.int64),
        evaluations=np.full(P, 1 + evaluator.gradient_cost),
        merit=merit,
        metric=make_metric(P, n),
    )


def _first_radius(points: Array, losses: Array, sizes: Array) -> Array:
    """The parameters' size, or less if a shorter step already brings every loss to its bound to first order; (P,)."""
    size = np.sqrt((points * points).sum(axis=-1))
    to_bound = np.where((losses > 0) & (sizes > 0), losses / np.where(sizes > 0, sizes, 1.0), 0.0).max(axis=-1)
    shortest = np.minimum(np.where(size > 0, size, np.inf), np.where(to_bound > 0, to_bound, np.inf))
    return FIRST_SHARE * np.where(np.isfinite(shortest), shortest, 1.0)


def _propose(runs: _Runs) -> _Proposal:
    """The subprogram in the metric, with eta brought down (or, before curvature is known, up) until the step fits."""
    merit, J = runs.merit, runs.jacobian
    JM = runs.metric.apply(J)
    gramian = JM @ J.transpose(0, 2, 1)
    bent = runs.losses + runs.bend
    order_values = merit.order_values(bent)
    worst = merit.worst(order_values)
    values = merit.constraint_values(bent)
    priced = bool(merit.price.any())
    rows = np.concatenate([merit.order, merit.rows], axis=1) if priced else merit.order
    linear = order_values - worst[:, None] * merit.rates
    linear = np.concatenate([linear, values], axis=1) if priced else linear
    eta = np.ones(len(J))
    lam = np.zeros(rows.shape[:2])
    weights, step, length = np.zeros_like(runs.losses), np.zeros_like(runs.points), np.zeros(len(J))
    todo = np.ones(len(J), dtype=bool)
    for _ in range(FITTING_ROUNDS):
        lam[todo] = _multipliers(rows[todo], eta[todo, None, None] * gramian[todo], linear[todo], merit, todo)
        weights[todo] = (lam[todo, None, :] @ rows[todo])[:, 0]
        step[todo] = -eta[todo, None] * (weights[todo, None, :] @ JM[todo])[:, 0]
        length[todo] = np.sqrt((step[todo] * step[todo]).sum(axis=-1))
        ratio = length / runs.radius
        fits = np.where(runs.metric.is_scaled, ratio <= FITS, np.abs(np.log(np.maximum(ratio, EPSILON))) < np.log(1.25))
        todo = ~fits & (length > 0)
        if not todo.any():
            break
        eta[todo] /= ratio[todo]
    ahead = bent + (J @ step[:, :, None])[:, :, 0]
    along = (weights * (gramian @ weights[:, :, None])[:, :, 0]).sum(axis=-1)
    curvature = np.where(runs.metric.is_scaled & ~runs.bend.any(axis=-1), 0.5 * eta**2 * along, 0.0)
    left = merit.violation(merit.constraint_values(ahead)).sum(axis=-1)
    k_f = merit.order.shape[1]
    return _Proposal(
        weights=weights,
        order_part=lam[:, :k_f],
        constraint_part=lam[:, k_f:] if priced else np.zeros_like(values),
        step=step,
        length=length,
        eta=eta,
        predicted=merit.value(runs.losses) - merit.value(ahead) - curvature,
        expected=(eta - 0.5 * eta**2) * along,
        left=left,
    )


def _drop_hopeless_corrections(runs: _Runs, proposal: _Proposal) -> Mask:
    """Corrections that promise nothing are not worth an evaluation."""
    hopeless = runs.bend.any(axis=-1) & (proposal.predicted <= _rounding(runs))
    runs.bend = np.where(hopeless[:, None], 0.0, runs.bend)
    runs.radius = np.where(hopeless, runs.retreat, runs.radius)
    return np.asarray(hopeless)


def _drop_held_rows(runs: _Runs, proposal: _Proposal) -> Mask:
    """Rows of the order that active constraints hold (their gradients cancel whatever the losses) stop the others no more.

    Without this every point with ``f.c == 0.7`` would be optimal while c is among the objectives: c cannot fall, so not
    all of them can. What cannot be improved is taken out of the order, and the rest is minimised.
    """
    parts = proposal.order_part[:, :, None] * runs.merit.order
    size = np.abs(parts).sum(axis=(1, 2))
    cancelled = np.abs(proposal.weights).max(axis=-1) <= np.sqrt(EPSILON) * size
    held = proposal.order_part * np.abs(runs.merit.order).max(axis=-1) > np.sqrt(EPSILON) * size[:, None]
    others = ((runs.merit.order != 0).any(axis=-1) & ~held).any(axis=-1)
    drop = cancelled & others
    if drop.any():
        runs.merit.drop(held & drop[:, None])
    return np.asarray(drop)


def _multipliers(rows: Array, gramian: Array, linear: Array, merit: Merit, which: Mask) -> Array:
    """The subprogram of the masked runs, (R, k)."""
    rates, price = merit.rates[which], merit.price[which]
    k_f, priced = rates.shape[1], rows.shape[1] > rates.shape[1]
    equalities = merit.equalities if priced else 0
    if len(rows) >= MANY_RUNS:
        tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in (rows, gramian, linear, rates)]
        ones, bound = torch.ones(len(rows), dtype=torch.float64), torch.from_numpy(price)
        return solve_batched(*tensors, ones, equalities, bound)[0].numpy()
    out = np.zeros(linear.shape)
    for i in range(len(rows)):
        used = slice(None) if price[i] > 0 else slice(k_f)
        count = equalities if price[i] > 0 else 0
        program = Program(rows[i, used], gramian[i], linear[i, used], rates[i], 1.0, count, price[i] or np.inf)
        out[i, used] = solve_exact(program).multipliers
    return out


@dataclass(frozen=True)
class _Measures:
    stationarity: Array  # relative to the order's part at its largest gradients, (P,)
    balance: Array  # relative to all parts at their largest gradients, (P,)
    feasibility: Array  # largest relative violation, (P,)
    violation: Array  # sum in the merit's units, (P,)

    def keep(self, runs: Mask) -> _Measures:
        return _Measures(**{name: value[runs] for name, value in vars(self).items()})


def _measure(runs: _Runs, proposal: _Proposal) -> _Measures:
    merit = runs.merit
    combined = (proposal.weights[:, None, :] @ runs.jacobian)[:, 0]
    size = np.sqrt((combined * combined).sum(axis=-1))
    order_sizes = (np.abs(merit.order) @ runs.sizes[:, :, None])[:, :, 0]
    order_part = (proposal.order_part * order_sizes).sum(axis=-1)
    constraint_sizes = (np.abs(merit.rows) @ runs.sizes[:, :, None])[:, :, 0]
    all_parts = order_part + (np.abs(proposal.constraint_part) * constraint_sizes).sum(axis=-1)
    values = merit.constraint_values(runs.losses)
    violation = merit.violation(values)
    scale = (np.abs(merit.rows) @ np.abs(runs.losses)[:, :, None])[:, :, 0] + np.abs(merit.offsets)
    relative = violation / np.maximum(scale, 1.0)
    return _Measures(
        stationarity=size / np.where(order_part > 0, order_part, np.inf),
        balance=size / np.where(all_parts > 0, all_parts, np.inf),
        feasibility=relative.max(axis=-1, initial=0.0),
        violation=violation.sum(axis=-1),
    )


def _judge(
    runs: _Runs,
    proposal: _Proposal,
    measures: _Measures,
    is_optimal: Callable[[int, Array, Array, Array], bool],
    max_iter: int,
    tol: float,
) -> list[str | None]:
    """How each run has ended, None for those that go on."""
    resolved = _is_below_rounding(runs, proposal) & ~_is_blind(runs)
    candidates = (measures.stationarity <= tol) & (measures.feasibility <= tol) | resolved
    exhausted = (runs.rejections > MOST_REJECTIONS) | resolved
    verdicts: list[str | None] = [None] * len(runs.ids)
    for i in np.flatnonzero(candidates | exhausted | (runs.iterations >= max_iter)):
        if is_optimal(int(runs.ids[i]), runs.losses[i], runs.jacobian[i], runs.sizes[i]):
            verdicts[i] = "converged"
        elif measures.feasibility[i] > tol and exhausted[i] and _is_violation_stuck(runs, i, tol):
            verdicts[i] = "unattainable"
        elif exhausted[i] and not (measures.feasibility[i] > tol and runs.merit.price[i] < HIGHEST_PRICE):
            verdicts[i] = "stalled"
        elif runs.iterations[i] >= max_iter:
            verdicts[i] = "max_iter"
    for i in np.flatnonzero(_wants_a_higher_price(runs, proposal, measures, tol)):
        if verdicts[i] is None and _is_violation_stuck(runs, i, tol):
            verdicts[i] = "unattainable"
    return verdicts


def _rounding(runs: _Runs) -> Array:
    """Differences of the merit that mean nothing, (P,)."""
    return np.asarray(4 * EPSILON * np.maximum(np.abs(runs.merit.value(runs.losses)), 1.0))


def _is_below_rounding(runs: _Runs, proposal: _Proposal) -> Mask:
    """Whether the predicted decrease, or the step, is too small for the numbers to show; (P,)."""
    flat = proposal.predicted <= _rounding(runs)
    still = proposal.length <= EPSILON * np.sqrt((runs.points * runs.points).sum(axis=-1))
    return np.asarray(flat | still)


def _is_blind(runs: _Runs) -> Mask:
    """Runs that have seen no curvature may be on a plateau whose slope the losses cannot show, but longer steps can."""
    return np.asarray(~runs.metric.is_scaled & (runs.rejections < BLIND_STEPS) & (runs.sizes > 0).any(axis=-1))


def _wants_a_higher_price(runs: _Runs, proposal: _Proposal, measures: _Measures, tol: float) -> Mask:
    """Nearly stationary with a violation that the step would not mend."""
    unmended = (measures.feasibility > tol) & (proposal.left > 0.5 * measures.violation)
    return np.asarray(unmended & (measures.balance <= NEARLY_STATIONARY) & ~runs.bend.any(axis=-1))


def _raise_prices(runs: _Runs, proposal: _Proposal, measures: _Measures, tol: float) -> Mask:
    resolved = _is_below_rounding(runs, proposal) & ~_is_blind(runs)
    stuck = (measures.feasibility > tol) & ((runs.rejections > MOST_REJECTIONS) | resolved)
    wanted = (_wants_a_higher_price(runs, proposal, measures, tol) | stuck) & (runs.merit.price < HIGHEST_PRICE)
    runs.merit.price = np.where(wanted, np.maximum(PRICE_GROWTH * runs.merit.price, 1.0), runs.merit.price)
    runs.rejections = np.where(wanted, 0, runs.rejections)
    return np.asarray(wanted)


def _is_violation_stuck(runs: _Runs, i: int, tol: float) -> bool:
    """Whether the shortest subgradient of the violation vanishes: no first-order step reduces it."""
    merit = runs.merit
    rows, J = merit.rows[i], runs.jacobian[i]
    values = rows @ runs.losses[i] + merit.offsets[i]
    scale = np.abs(rows) @ np.abs(runs.losses[i]) + np.abs(merit.offsets[i])
    is_equality = np.arange(len(rows)) >= len(rows) - merit.equalities
    violated = np.where(is_equality, np.abs(values), values) > tol * scale
    active = ~violated & (is_equality | (values > -tol * scale))
    pull = (np.sign(values) * violated) @ rows
    gramian = J @ J.T
    if active.any():
        program = Program(
            rows[active], gramian, -rows[active] @ gramian @ pull, np.zeros(0), 1.0, int((active & is_equality).sum()), 1.0
        )
        pull = pull + program.weights(solve_exact(program).multipliers)
    whole = float(np.abs(rows[violated]).sum(axis=0) @ runs.sizes[i])
    return bool(np.linalg.norm(pull @ J) <= STUCK_VIOLATION * whole)


def _try(
    evaluator: Evaluator, runs: _Runs, proposal: _Proposal, measures: _Measures, on_round: Callable[[Round], bool]
) -> dict[int, str]:
    """Evaluate the steps, take those that bring what they promised, learn from them. Returns runs that must end."""
    trial = runs.points + proposal.step
    losses = evaluator.losses(trial)
    runs.evaluations += 1
    with np.errstate(invalid="ignore", over="ignore"):
        actual = runs.merit.value(runs.losses) - runs.merit.value(losses)
    actual = np.where(np.isfinite(losses).all(axis=-1) & np.isfinite(actual), actual, -np.inf)
    accepted = (actual >= ACCEPTED_SHARE * proposal.predicted) & (actual > 0)
    _resize(runs, proposal, losses, actual, accepted)
    done: dict[int, str] = {}
    if accepted.any():
        done = _move(evaluator, runs, proposal, trial, losses, accepted)
    record = Round(
        runs.ids, accepted, runs.losses, proposal.weights, measures.feasibility, measures.stationarity, proposal.length,
        runs.points,
    )  # fmt: skip
    if on_round(record):
        done = dict.fromkeys(range(len(runs.ids)), "stopped")
    return done


def _move(
    evaluator: Evaluator, runs: _Runs, proposal: _Proposal, trial: Array, losses: Array, accepted: Mask
) -> dict[int, str]:
    moved = np.flatnonzero(accepted)
    jacobian = runs.jacobian.copy()
    jacobian[moved] = evaluator.jacobians(moved)
    runs.evaluations[moved] += evaluator.gradient_cost
    finite = np.isfinite(jacobian).all(axis=(1, 2))
    accepted = accepted & finite
    w = proposal.weights[:, None, :]
    change = (w @ np.where(finite[:, None, None], jacobian - runs.jacobian, 0.0))[:, 0]
    image = -proposal.eta[:, None] * (w @ runs.jacobian)[:, 0]
    runs.metric.update(accepted, proposal.step, change, image)
    runs.points = np.where(accepted[:, None], trial, runs.points)
    runs.losses = np.where(accepted[:, None], losses, runs.losses)
    runs.jacobian = np.where(accepted[:, None, None], jacobian, runs.jacobian)
    runs.sizes = np.maximum(runs.sizes, np.sqrt((runs.jacobian * runs.jacobian).sum(axis=-1)))
    runs.iterations = runs.iterations + accepted
    runs.merit.renew(runs.losses)
    return {int(i): "non_finite" for i in np.flatnonzero(~finite)}


def _resize(runs: _Runs, proposal: _Proposal, losses: Array, actual: Array, accepted: Mask) -> None:
    """Grow the radius after good steps. After a bad one whose weighted losses did fall, first correct the step for
    the curvature that it met; else shrink to where a parabola through value, slope and new value has its foot.
    """
    predicted = proposal.predicted
    share = actual / np.where(predicted > 0, predicted, np.inf)
    grown = np.where(share > GOOD_SHARE, np.maximum(runs.radius, GROWTH * proposal.length), runs.radius)
    loss = np.where(np.isfinite(actual), predicted - actual, np.inf)
    shrunk = proposal.length * np.clip(0.5 * predicted / np.where(loss > 0, loss, np.inf), 0.1, 0.5)
    correcting = runs.bend.any(axis=-1)
    shrunk = np.where(correcting, runs.retreat, shrunk)
    runs.retreat = shrunk
    unseen = (np.abs(actual) <= _rounding(runs)) & _is_blind(runs)
    fallen = -(proposal.weights * (losses - runs.losses)).sum(axis=-1)
    as_expected = fallen >= ACCEPTED_SHARE * proposal.expected
    correctable = ~accepted & runs.metric.is_scaled & ~correcting & as_expected
    kept = np.where(correctable, runs.radius, np.where(unseen, GROWTH * proposal.length, shrunk))
    runs.radius = np.where(accepted, grown, kept)
    met = losses - runs.losses - (runs.jacobian @ proposal.step[:, :, None])[:, :, 0]
    runs.bend = np.where(correctable[:, None], np.where(np.isfinite(met), met, 0.0), 0.0)
    runs.rejections = np.where(accepted, 0, runs.rejections + 1)
