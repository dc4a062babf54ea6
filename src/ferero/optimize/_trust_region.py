"""Algorithm 1 with a trust radius and a quasi-Newton metric, for many runs at once.

Each round every run linearises, solves the elastic subprogram in its metric, shrinks the proximal weight eta until the
step fits its radius, and tries it (`_proposal.py`). A step is taken only if the merit falls by a tenth of what the
model predicts, so the merit never rises. The radius starts from the size of the parameters (or of losses over
gradients), grows after good steps and shrinks after bad ones; nothing else in here has a unit.

Steps along a curved front are rejected although the weighted losses fell as expected: the losses bend apart, each by
its own curvature (the Maratos effect). Such a step is corrected by the bend that the trial showed, and again by what
the corrected one shows while each correction leaves less than a third of what was lacking: the chord form of Newton's
method for the point on the curved front that the step was meant to reach, one evaluation without gradients each.

Nothing is called unattainable before a search for the smallest violation alone has ended where it began to look so, at
the start, and at several distances from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ferero._arrays import Array, Mask
from ferero.optimize._box import Box
from ferero.optimize._evaluator import Evaluator
from ferero.optimize._merit import Merit, violation_merit
from ferero.optimize._outcome import Outcome, Round, Seen
from ferero.optimize._proposal import Proposal, propose
from ferero.optimize._runs import Runs, norms_of
from ferero.optimize._scale import DIVERGED
from ferero.subprogram import Program, solve_exact
from ferero.subprogram._program import EPSILON

__all__ = ["Search", "descend"]

RESET_SHARE = 1e-2  # of the first radius, after the metric was reset
NEARLY_STATIONARY = 1e-3  # relative stationarity at which an unmet constraint raises its price
WITHOUT_PRICE = 1e-4  # the same for a line that has none yet
PRICE_GROWTH = 10.0
MULTIPLIERS = 2.0  # times the largest multiplier that a price may fall to
MOST_LOWERED = 8  # times that it may
HIGHEST_PRICE = 1e8
STUCK_VIOLATION = 1e-3  # relative size of the violation's gradient below which a search for the smallest one begins
SMALLEST_VIOLATION = 1e-4  # the same where that search may end
MOST_REJECTIONS = 30
MOST_WASTED = 500  # steps that were not taken, in all
MOST_RESETS = 2
MOST_POLISHES = 8  # steps whose effect is below rounding
NOISES = 2.0  # by how many times its rounding the merit may rise in such a step
MOST_RESTORATIONS = 3
RESTORATION_STEPS = 100
PERTURBATIONS = (0.3, 1.0, 3.0)  # of the start's size, each there and back
HELD = 1e-5  # relative size of weights that counts as cancelled by the constraints
ACCEPTED_SHARE = 0.1  # of the predicted decrease that a step must bring
GOOD_SHARE = 0.75  # above which the radius grows
GROWTH = 2.5
MOST_CORRECTIONS = 6  # of one step, each by the bend that the last trial showed
CONTRACTION = 0.3  # of the shortfall that a correction may leave if another is to follow
BACK = 0.25  # of a step to where there are no gradients
UNEQUAL = 1e-3  # parameters whose share of the gradients is below this are rescaled with the metric

IsOptimal = Callable[[int, Array, Array, Array, Seen], bool]  # (run, point, losses, jacobian, what it has seen)


@dataclass(frozen=True, eq=False)
class Search:
    """What a search is given besides its starts.

    Attributes:
        evaluator: the losses and constraints in x.
        is_optimal: the certificate at the tolerance.
        max_iter: accepted steps per run.
        tol: on stationarity and relative feasibility.
        on_round: called after every round; a word that is not empty ends all runs, with it as their status.
        box: the bounds, None for none.
        atol: violations up to this are none, in the units of the rows; (k_c,) or 0.
        errors: the size of errors in the losses and constraints, (m,); None for rounding alone.
        in_x: which of the m are constraints in x, (m,).
        restores: whether an unmet constraint starts a search for the smallest violation.
    """

    evaluator: Evaluator
    is_optimal: IsOptimal
    max_iter: int
    tol: float
    on_round: Callable[[Round], str]
    box: Box | None
    in_x: Mask
    atol: float = 0.0
    errors: Array | None = None
    restores: bool = True


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


def _measure(runs: Runs, proposal: Proposal, atol: float) -> Measures:
    """The measures of the point that the proposal starts from, with its multipliers."""
    merit, size = runs.merit, proposal.residual
    sizes = runs.sizes()[:, :, None]
    order_part = (proposal.order_part * (np.abs(merit.order) @ sizes)[:, :, 0]).sum(axis=-1)
    all_parts = order_part
    if merit.price.any():
        all_parts = order_part + (np.abs(proposal.constraint_part) * (np.abs(merit.rows) @ sizes)[:, :, 0]).sum(axis=-1)
    relative = _relative_violation(runs, atol)
    varies = np.minimum(np.abs(runs.losses - merit.lower), runs.spans())
    weighted = (np.abs(proposal.weights) * varies).sum(axis=-1)
    expected = np.where(runs.metric.is_scaled, proposal.expected, 0.0)
    moved = norms_of(runs.points)
    invisible = (proposal.predicted <= runs.noise) | (proposal.length <= EPSILON * moved)
    return Measures(
        stationarity=size / np.where(order_part > 0, order_part, np.inf),
        balance=size / np.where(all_parts > 0, all_parts, np.inf),
        decrement=expected / np.where(weighted > 0, weighted, np.inf),
        feasibility=relative.max(axis=-1, initial=0.0),
        exhausted=(invisible & ~runs.is_blind() & ~_may_polish(runs, proposal))
        | (runs.rejections > MOST_REJECTIONS)
        | (runs.wasted > MOST_WASTED),
    )


def _may_polish(runs: Runs, proposal: Proposal) -> Mask:
    """Runs whose next decrease is below rounding: a few more steps are taken unjudged, for their gradients' sake."""
    return np.asarray(
        runs.metric.is_scaled
        & (runs.polished < MOST_POLISHES)
        & (runs.rejections == 0)
        & (proposal.length > EPSILON * norms_of(runs.points))
    )


def _relative_violation(runs: Runs, atol: float) -> Array:
    """The violations beyond ``atol``, relative to the size of their rows, (P, k_c)."""
    if not runs.violation.any():
        return runs.violation
    beyond = runs.violation
    if atol:
        beyond = np.maximum(beyond - atol * np.abs(runs.merit.rows).max(axis=-1), 0.0)
    return np.asarray(beyond / runs.constraint_scales())


def _judge(runs: Runs, proposal: Proposal, measures: Measures, search: Search) -> dict[int, str]:
    """The status of each run that is done, by its place among those still going."""
    done: dict[int, str] = {}
    is_optimal, max_iter, tol = search.is_optimal, search.max_iter, search.tol
    arrived = (measures.stationarity <= tol) & (measures.feasibility <= tol) & (measures.decrement <= tol)
    spent = runs.iterations >= max_iter
    underpriced = _needs_higher_price(runs, proposal, measures, tol)
    if not (arrived | measures.exhausted | spent | underpriced).any():
        return done
    unmet = measures.feasibility > tol
    for i in np.flatnonzero(arrived | measures.exhausted | spent | underpriced):
        is_candidate = arrived[i] or measures.exhausted[i] or spent[i]
        may_pay_more = unmet[i] and runs.merit.price[i] < HIGHEST_PRICE
        here = runs.points[i], runs.losses[i], runs.jacobian[i]
        if is_candidate and is_optimal(int(runs.ids[i]), *here, runs.seen(int(i))):
            done[int(i)] = "converged"
        elif (
            unmet[i]
            and (measures.exhausted[i] or underpriced[i])
            and _is_violation_stuck(runs, int(i), tol)
            and (status := _restore(runs, int(i), search))
        ):
            done[int(i)] = status
        elif measures.exhausted[i] and not may_pay_more and runs.resets[i] >= MOST_RESETS:
            status = _restore(runs, int(i), search) if unmet[i] else "stalled"
            if status:
                done[int(i)] = status
        elif spent[i]:
            done[int(i)] = "max_iter"
    return done


def _restart(runs: Runs, measures: Measures, tol: float) -> Mask:
    """Reset the metric of exhausted runs before they are given up, since it may be at fault; returns which."""
    afresh = measures.exhausted & (runs.resets < MOST_RESETS)
    afresh &= ~((measures.feasibility > tol) & (runs.merit.price < HIGHEST_PRICE))
    if afresh.any():
        runs.metric.reset(afresh, _sizes(runs))
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
    unmet = measures.feasibility > tol
    if not unmet.any():
        return unmet
    unreduced = unmet & (proposal.left > 0.5 * runs.violation.sum(axis=-1))
    threshold = np.where(runs.merit.price > 0, NEARLY_STATIONARY, WITHOUT_PRICE)
    has_moved = runs.iterations > runs.raised_at
    return np.asarray(unreduced & (measures.balance <= threshold) & has_moved & ~runs.correcting)


def _would_violate(runs: Runs, proposal: Proposal, tol: float) -> Mask:
    """Runs whose step would violate a constraint further: the price is too low."""
    if not proposal.left.any():
        return np.zeros(len(runs), dtype=bool)
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
    if not cancelled.any():
        return False
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


def _sizes(runs: Runs) -> Array:
    """The sizes of the parameters that a metric begins with: alike, unless some had hardly a share of a gradient."""
    share = np.maximum(runs.columns, EPSILON**0.5)
    share = share / share.max(axis=-1, keepdims=True)
    return np.where((share < UNEQUAL).any(axis=-1, keepdims=True), 1.0 / share, 1.0)


def _is_violation_stuck(runs: Runs, i: int, tol: float) -> bool:
    """Whether the shortest subgradient of the violation nearly vanishes: first-order steps hardly reduce it."""
    merit = runs.merit
    rows, J, values = merit.rows[i], runs.jacobian[i], runs.constraint_values[i]
    if runs.box is not None:
        J = J * (runs.box.sides(runs.points[i]) == 0)
    scale = runs.constraint_scales()[i]
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


def _restore(runs: Runs, i: int, search: Search) -> str:
    """Move a run to a point that meets its constraints and return "", or say why there is none.

    The largest violation alone is minimised from here, from the start, and from points ever farther from the start, on
    both sides of it, since a violation may have many local minima. The run takes the first point that meets the
    constraints; where none does it takes the one that violates them least.
    """
    if not search.restores or runs.restorations[i] >= MOST_RESTORATIONS:
        return "stalled"
    runs.restorations[i] += 1
    scales = runs.constraint_scales()[i]
    first, n = runs.first_points[i], runs.points.shape[1]
    size = (float(np.linalg.norm(first)) or 1.0) / np.sqrt(n)
    random = np.random.default_rng(0)
    away = [share * size * random.standard_normal(n) for share in PERTURBATIONS]
    best, proves = _Restoration(np.inf), False
    for start in (runs.points[i], first, *(first + sign * step for step in away for sign in (1.0, -1.0))):
        attempt = _reduce_violation(runs, i, start, scales, search)
        runs.evaluations[i] += attempt.evaluations
        proves |= attempt.is_stationary
        if attempt.violation < best.violation:
            best = attempt
        if best.violation <= search.tol:
            break
    if best.outcome is not None and best.violation < _largest(
        runs.violation[i], runs.merit.rows[i], scales, search.atol
    ):
        runs.place(i, best.outcome)
        runs.measure()
    if best.violation > search.tol:
        return "unattainable" if proves else "stalled"
    runs.merit.price[i] = max(PRICE_GROWTH * runs.merit.price[i], 1.0)
    only = np.arange(len(runs)) == i
    runs.metric.reset(only, _sizes(runs))
    runs.radius[i], runs.rejections[i], runs.resets[i] = runs.first_radius[i], 0, 0
    return ""


@dataclass(frozen=True)
class _Restoration:
    """The smallest violation found from one start, and whether no first-order step reduces it."""

    violation: float
    is_stationary: bool = False
    outcome: Outcome | None = None
    evaluations: int = 0


def _largest(violation: Array, rows: Array, scales: Array, atol: float) -> float:
    return float((np.maximum(violation - atol * np.abs(rows).max(axis=-1), 0.0) / scales).max(initial=0.0))


def _reduce_violation(runs: Runs, i: int, start: Array, scales: Array, search: Search) -> _Restoration:
    """Minimise the largest violation of one run from a start, until it is within half the tolerance."""
    evaluator, merit = search.evaluator, runs.merit
    point = (start if search.box is None else search.box.clip(start))[None]
    losses = evaluator.losses(point)
    if not np.isfinite(losses).all():
        return _Restoration(np.inf, evaluations=1)
    jacobian = evaluator.jacobians(np.zeros(1, dtype=np.int64))
    alone = violation_merit(merit, i, losses[0], runs.terms(i))

    def violation_of(values: Array) -> float:
        found = merit.rows[i] @ values + merit.offsets[i]
        first = len(found) - merit.equalities
        violation = np.concatenate([np.maximum(found[:first], 0.0), np.abs(found[first:])])
        return _largest(violation, merit.rows[i], scales, search.atol)

    def is_met(values: Array) -> bool:
        return violation_of(values) <= 0.5 * search.tol

    def is_stationary(run: int, point: Array, values: Array, jacobian: Array, seen: Seen) -> bool:
        del run
        J = jacobian if search.box is None else jacobian * (search.box.sides(point) == 0)
        rows, row_values = alone.order[0], alone.order_values(values[None])[0]
        size = float(row_values.max())  # of what is left, beside which a row far from being violated has no part
        if is_met(values) or size <= 0:
            return True
        steepest = float(seen.order.max()) or 1.0
        gramian = J @ J.T / steepest**2
        lam = solve_exact(Program(rows, gramian, row_values / size - 1.0, np.ones(len(rows)), 1.0)).multipliers
        whole = float(lam @ seen.order)
        return float(np.linalg.norm(lam @ rows @ J)) <= SMALLEST_VIOLATION * whole

    sub = replace(
        search,
        is_optimal=is_stationary,
        max_iter=RESTORATION_STEPS,
        on_round=lambda record: "stopped" if is_met(record.losses[0]) else "",
        restores=False,
    )
    if is_met(losses[0]):
        sub = replace(sub, max_iter=0)
    outcome = descend(sub, point, losses, jacobian, alone)[0]
    return _Restoration(violation_of(outcome.losses), outcome.status == "converged", outcome, outcome.evaluations)


def descend(search: Search, points: Array, losses: Array, jacobian: Array, merit: Merit) -> list[Outcome]:
    """Runs every start to its end.

    Args:
        search: the functions, the certificate and the limits.
        points: starts, (P, n), in the box.
        losses: there, (P, m), the evaluator's last; runs where they are not finite end at once.
        jacobian: there, (P, m, n).
        merit: built for the losses at the starts.

    Returns:
        One outcome per start.
    """
    runs = Runs(search.evaluator, points, losses, jacobian, merit, search.box, search.errors, search.in_x)
    outcomes: dict[int, Outcome] = {}
    tol = search.tol

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
        proposal = propose(runs)
        if _drop_hopeless_corrections(runs, proposal) or _drop_held_rows(runs, proposal):
            continue
        measures = _measure(runs, proposal, search.atol)
        restored = runs.restorations.sum()
        done = _judge(runs, proposal, measures, search)
        moved = runs.restorations.sum() > restored
        if done:
            going = end(done)
            proposal, measures = proposal.keep(going), measures.keep(going)
        if moved or not len(runs) or _raise_prices(runs, proposal, measures, tol).any():
            continue
        if not _restart(runs, measures, tol).any():
            end(_try(search, runs, proposal, measures))
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
    runs.corrections = np.where(hopeless, 0, runs.corrections)
    runs.radius = np.where(hopeless, runs.retreat, runs.radius)
    return True


def _try(search: Search, runs: Runs, proposal: Proposal, measures: Measures) -> dict[int, str]:
    """Evaluate the steps, take those that decrease the merit enough, update the metric; returns the runs that end."""
    trial = runs.points + proposal.step
    if runs.box is not None:
        trial = runs.box.clip(trial)
    losses = search.evaluator.losses(trial)
    runs.evaluations += 1
    with np.errstate(invalid="ignore", over="ignore"):
        actual = runs.value - runs.merit.value(losses)
    actual[~np.isfinite(actual)] = -np.inf
    accepted = (actual >= ACCEPTED_SHARE * proposal.predicted) & (actual > 0)
    if not accepted.all() and runs.merit.price.any():
        accepted |= _accept_at_lower_price(runs, proposal, losses, accepted)
    unjudged = (proposal.predicted <= runs.noise) & (np.abs(actual) <= NOISES * runs.noise) & runs.metric.is_scaled
    if unjudged.any():
        accepted |= unjudged
        runs.polished = runs.polished + unjudged
    before = runs.rejections
    _resize(runs, proposal, losses, actual, accepted)
    done: dict[int, str] = {}
    if accepted.any():
        moved = accepted.copy()
        done = _move(search.evaluator, runs, proposal, trial, losses, accepted)
        if (back := moved & ~accepted).any():
            runs.rejections = np.where(back, before + 1, runs.rejections)
    runs.wasted = runs.wasted + ~accepted
    violation, stationarity = measures.feasibility, measures.stationarity
    parts = runs.losses, proposal.weights, violation, stationarity, proposal.length, runs.points
    if stop := search.on_round(Round(runs.ids, accepted, *parts)):
        return dict.fromkeys(range(len(runs)), stop)
    return done


def _accept_at_lower_price(runs: Runs, proposal: Proposal, losses: Array, accepted: Mask) -> Mask:
    """Rejected steps that pass with a price of twice the largest multiplier, which then becomes the price.

    A price far above the multipliers makes the curvature of a constraint count for more than it does in the model, and
    each step along it is rejected. A price may fall only so often, so that no cycle is possible.
    """
    merit = runs.merit
    needed = MULTIPLIERS * np.abs(proposal.constraint_part).max(axis=-1, initial=0.0)
    lower = ~accepted & (needed > 0) & (needed < merit.price) & (runs.lowered < MOST_LOWERED) & ~runs.correcting
    if not lower.any():
        return np.asarray(lower)
    violation = runs.violation.sum(axis=-1)
    with np.errstate(invalid="ignore", over="ignore"):
        ahead = merit.violation(merit.constraint_values(losses)).sum(axis=-1)
        fall = runs.value - merit.price * violation - merit.worst(merit.order_values(losses))
        actual = fall + needed * (violation - ahead)
    predicted = proposal.predicted + (merit.price - needed) * (proposal.left - violation)
    passes = lower & (predicted > runs.noise) & (actual >= ACCEPTED_SHARE * predicted)
    if passes.any():
        merit.price = np.where(passes, needed, merit.price)
        runs.lowered = runs.lowered + passes
    return np.asarray(passes)


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
            runs.corrections = np.zeros_like(runs.corrections)
        return
    shortfall = predicted - actual
    foot = 0.5 * predicted / np.where(shortfall > 0, shortfall, np.inf)
    tried = np.where(length > 0, length, runs.radius)  # where losses cancel, rounding may leave no step at all
    shrunk = np.where(runs.correcting, runs.retreat, tried * np.clip(foot, 0.1, 0.5))
    unseen = (np.abs(actual) <= runs.noise) & runs.is_blind()
    with np.errstate(invalid="ignore", over="ignore"):
        bend = change - (runs.jacobian @ proposal.step[:, :, None])[:, :, 0]
    closer = (runs.corrections == 0) | (
        (runs.corrections < MOST_CORRECTIONS) & (shortfall <= CONTRACTION * runs.shortfall)
    )
    correctable = ~accepted & runs.metric.is_scaled & closer & (fallen >= ACCEPTED_SHARE * proposal.expected)
    rejected = np.where(correctable, runs.radius, np.where(unseen, GROWTH * tried, shrunk))
    runs.retreat = shrunk
    runs.shortfall = shortfall
    runs.corrections = np.where(correctable, runs.corrections + 1, 0)
    runs.radius = np.where(accepted, grown, rejected)
    runs.rejections = np.where(accepted, 0, runs.rejections + 1)
    runs.correcting = correctable
    runs.bend = np.where(correctable[:, None], bend, 0.0)


def _move(
    evaluator: Evaluator, runs: Runs, proposal: Proposal, trial: Array, losses: Array, accepted: Mask
) -> dict[int, str]:
    """Take the accepted steps. Runs whose losses diverge stay and end; those without gradients there step back."""
    moved = np.flatnonzero(accepted)
    found = evaluator.jacobians(moved)
    runs.evaluations[moved] += evaluator.gradient_cost
    is_bounded = np.abs(losses[moved]).max(axis=-1) < DIVERGED
    has_gradient = np.isfinite(np.einsum("pmn->p", found)) | np.isfinite(found).all(axis=(1, 2))
    if has_gradient.all() and not (np.abs(found).max(axis=(1, 2), initial=0.0) < DIVERGED).all():
        is_bounded &= np.abs(found).max(axis=(1, 2)) < DIVERGED
    ends = moved[~is_bounded & has_gradient]
    back = moved[~has_gradient]
    if len(back):
        runs.radius[back] = BACK * proposal.length[back]
    if not (is_bounded & has_gradient).all():
        accepted[ends], accepted[back] = False, False
        found, moved = found[is_bounded & has_gradient], moved[is_bounded & has_gradient]
    if len(moved):
        jacobian = found
        if len(moved) < len(runs):
            jacobian = runs.jacobian.copy()
            jacobian[moved] = found
        change = (proposal.weights[:, None, :] @ (jacobian - runs.jacobian))[:, 0]
        image = -proposal.eta[:, None] * proposal.slopes
        runs.metric.update(accepted, trial - runs.points, change, image)
        runs.points = trial if accepted.all() else np.where(accepted[:, None], trial, runs.points)
        runs.losses = np.where(accepted[:, None], losses, runs.losses)
        runs.take(jacobian)
        runs.iterations = runs.iterations + accepted
        runs.merit.renew(runs.losses)
    return {int(i): "non_finite" for i in ends}
