"""Algorithm 1 with a trust radius and a quasi-Newton metric.

Each round a run linearises, solves the elastic subprogram in its metric, shrinks the proximal weight eta until the
step fits its radius, and tries it (`_proposal.py`). A step is taken only if the merit falls by a tenth of what the
model predicts, so the merit never rises. The radius starts from the size of the parameters (or of losses over
gradients), grows after good steps and shrinks after bad ones; nothing else in here has a unit.

Steps along a curved front are rejected although the weighted losses fell as expected: the losses bend apart, each by
its own curvature (the Maratos effect). Such a step is corrected by the bend that the trial showed, and again by what
the corrected one shows while each correction leaves less than a third of what was lacking: the chord form of Newton's
method for the point on the curved front that the step was meant to reach, one evaluation without gradients each.

Nothing is called unattainable before a search for the smallest violation alone has ended where it began to look so, at
the start, and at several distances from it.

Many runs advance together: each proposes its own step, and the losses at all of them come from one call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ferero._arrays import Array
from ferero.optimize._box import Box
from ferero.optimize._evaluator import Evaluator
from ferero.optimize._merit import Merit, violation_merit
from ferero.optimize._outcome import Outcome, Round, Seen
from ferero.optimize._proposal import Proposal, propose
from ferero.optimize._run import Run
from ferero.optimize._scale import DIVERGED, norm
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
SETTLED = EPSILON**0.5  # of the merit's terms: a predicted decrease below this is none
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
        on_round: called after every round of every run; a word that is not empty ends all runs, as their status.
        box: the bounds, None for none.
        atol: violations up to this are none, in the units of the rows; (k_c,) or 0.
        errors: the size of errors in the losses and constraints, (m,); None for rounding alone.
        restores: whether an unmet constraint starts a search for the smallest violation.
    """

    evaluator: Evaluator
    is_optimal: IsOptimal
    max_iter: int
    tol: float
    on_round: Callable[[Round], str]
    box: Box | None
    atol: float = 0.0
    errors: Array | None = None
    restores: bool = True


class Measures(NamedTuple):
    """How far a run is from being done.

    Attributes:
        stationarity: ``|gradF w|`` relative to the order's part at its largest gradients.
        balance: relative to all parts at their largest gradients.
        decrement: the expected decrease of the weighted losses relative to them: what the next step can still bring.
        feasibility: the largest relative violation.
        exhausted: whether steps have become too small for the numbers to show, or were rejected too often.
    """

    stationarity: float
    balance: float
    decrement: float
    feasibility: float
    exhausted: bool


def _measure(run: Run, proposal: Proposal, atol: float) -> Measures:
    """The measures of the point that the proposal starts from, with its multipliers."""
    merit, size, sizes = run.merit, proposal.residual, run.sizes()
    all_parts = order_part = float(proposal.order_part.dot(merit.order_sizes @ sizes))
    if merit.price:
        all_parts += float(np.abs(proposal.constraint_part).dot(merit.sizes.magnitude @ sizes))
    varies = np.minimum(np.abs(run.losses - merit.lower), run.spans())
    weighted = float(np.abs(proposal.weights).dot(varies))
    expected = proposal.expected if run.metric.is_scaled else 0.0
    is_visible_step = proposal.length > EPSILON * norm(run.point)
    is_invisible = proposal.predicted <= run.noise or not is_visible_step
    return Measures(
        stationarity=size / order_part if order_part > 0 else 0.0,
        balance=size / all_parts if all_parts > 0 else 0.0,
        decrement=expected / weighted if weighted > 0 else 0.0,
        feasibility=_relative_violation(run, atol),
        exhausted=(is_invisible and not run.is_blind() and not (is_visible_step and _may_polish(run)))
        or run.rejections > MOST_REJECTIONS
        or run.wasted > MOST_WASTED,
    )


def _may_polish(run: Run) -> bool:
    """Whether a step whose decrease is below rounding may be taken unjudged, for its gradients' sake: a few are."""
    return run.metric.is_scaled and run.polished < MOST_POLISHES and run.rejections == 0


def _relative_violation(run: Run, atol: float) -> float:
    """The largest violation beyond ``atol``, relative to the size of its row."""
    if not run.violation:
        return 0.0
    return _largest(np.array(run.violations), run.merit, run.constraint_scales(), atol)


def _largest(violations: Array, merit: Merit, scales: Array, atol: float) -> float:
    if atol:
        violations = np.maximum(violations - atol * merit.sizes.magnitude.max(axis=-1), 0.0)
    return float((violations / scales).max(initial=0.0))


def _judge(run: Run, proposal: Proposal, measures: Measures, search: Search) -> str:
    """The status of a run that is done, else ""."""
    tol = search.tol
    arrived = measures.stationarity <= tol and measures.feasibility <= tol and measures.decrement <= tol
    spent = run.iterations >= search.max_iter
    underpriced = _needs_higher_price(run, proposal, measures, tol)
    is_candidate = arrived or measures.exhausted or spent
    if not (is_candidate or underpriced):
        return ""
    is_unmet = measures.feasibility > tol
    may_pay_more = is_unmet and run.merit.price < HIGHEST_PRICE
    if is_candidate and search.is_optimal(run.index, run.point, run.losses, run.jacobian, run.seen()):
        return "converged"
    if (
        is_unmet
        and (measures.exhausted or underpriced)
        and _is_violation_stuck(run, tol)
        and (status := _restore(run, search))
    ):
        return status
    if measures.exhausted and not may_pay_more and run.resets >= MOST_RESETS:
        return _restore(run, search) if is_unmet else "stalled"
    return "max_iter" if spent else ""


def _restart(run: Run, measures: Measures, tol: float) -> bool:
    """Reset the metric of an exhausted run before it is given up, since it may be at fault; returns whether."""
    may_pay_more = measures.feasibility > tol and run.merit.price < HIGHEST_PRICE
    if not measures.exhausted or run.resets >= MOST_RESETS or may_pay_more:
        return False
    run.reset_metric(_sizes(run))
    run.radius = RESET_SHARE * run.first_radius
    run.rejections = 0
    run.resets += 1
    return True


def _raise_price(run: Run, proposal: Proposal, measures: Measures, tol: float) -> bool:
    """Multiply the price where a violation would stay for good; returns whether."""
    underpriced = (
        _needs_higher_price(run, proposal, measures, tol)
        or (measures.feasibility > tol and measures.exhausted)
        or _would_violate(run, proposal, tol)
    )
    if not underpriced or run.merit.price >= HIGHEST_PRICE:
        return False
    run.merit.price = max(PRICE_GROWTH * run.merit.price, 1.0)
    run.rejections = 0
    run.raised_at = run.iterations
    return True


def _needs_higher_price(run: Run, proposal: Proposal, measures: Measures, tol: float) -> bool:
    """Whether it is nearly stationary under the present price, with a violation that the step would not reduce."""
    if not measures.feasibility > tol or not proposal.left > 0.5 * run.violation:
        return False
    threshold = NEARLY_STATIONARY if run.merit.price > 0 else WITHOUT_PRICE
    return measures.balance <= threshold and run.iterations > run.raised_at and not run.is_correcting


def _would_violate(run: Run, proposal: Proposal, tol: float) -> bool:
    """Whether the step would violate a constraint further: the price is too low."""
    worse = proposal.left > (1.0 + tol) * run.violation + tol
    return worse and run.merit.price > 0 and not run.is_correcting


def _drop_held_rows(run: Run, proposal: Proposal) -> bool:
    """Take rows of the order that active constraints hold, whatever the gradients, out of it; returns whether any.

    Without this every point with ``f.c == 0.7`` would be optimal while c is among the objectives: c cannot fall, so
    not all of them can. What cannot be improved is taken out of the order, and the rest is minimised. A row that
    rests on an inequality could rise again in favour of the others, so a new inequality keeps it where it is, plus what
    the constraint still lacks.
    """
    merit = run.merit
    if not merit.price:
        return False
    part = proposal.order_part * merit.order_sizes.sum(axis=-1)
    size = float(part.sum())
    if not np.abs(proposal.weights).max() <= HELD * size:
        return False
    held = part > HELD * size
    has_others = bool((merit.order_sizes.any(axis=-1) & ~held).any())
    is_settled = proposal.predicted <= SETTLED * merit.magnitude(run.losses)
    if not (has_others and is_settled):
        return False
    count = len(merit.rows) - merit.equalities
    inequalities = proposal.constraint_part[:count]
    by_inequality = float(np.abs(inequalities).dot(merit.sizes.magnitude[:count].sum(axis=-1)))
    owed = float(inequalities.dot(np.maximum(run.constraint_values[:count], 0.0)))
    if by_inequality > HELD * size:
        merit.hold(held, run.losses, owed / np.where(held, proposal.order_part, np.inf))
    merit.drop(held)
    return True


def _sizes(run: Run) -> Array:
    """The sizes of the parameters that a metric begins with: alike, unless some had hardly a share of a gradient."""
    share = np.maximum(run.columns, EPSILON**0.5)
    share = share / share.max()
    return 1.0 / share if (share < UNEQUAL).any() else np.ones(len(share))


def _is_violation_stuck(run: Run, tol: float) -> bool:
    """Whether the shortest subgradient of the violation nearly vanishes: first-order steps hardly reduce it."""
    merit = run.merit
    rows, J, values = merit.rows, run.jacobian, run.constraint_values
    if run.box is not None:
        J = J * (run.box.sides(run.point) == 0)
    scale = run.constraint_scales()
    is_equality = np.arange(len(rows)) >= len(rows) - merit.equalities
    violated = np.where(is_equality, np.abs(values), values) > tol * scale
    active = ~violated & (is_equality | (values > -tol * scale))
    pull = (np.sign(values) * violated) @ rows
    if active.any():
        gramian = J @ J.T
        equalities = int((active & is_equality).sum())
        linear = -rows[active] @ gramian @ pull
        program = Program(rows[active], gramian, linear, np.zeros(0), 1.0, equalities, 1.0)
        pull = pull + program.weights(solve_exact(program).multipliers)
    whole = float(merit.sizes.magnitude[violated].sum(axis=0) @ run.sizes())
    return norm(pull @ J) <= STUCK_VIOLATION * whole


def _restore(run: Run, search: Search) -> str:
    """Move a run to a point that meets its constraints and return "", or say why there is none.

    The largest violation alone is minimised from here, from the start, and from points ever farther from the start, on
    both sides of it, since a violation may have many local minima. The run takes the first point that meets the
    constraints; where none does it takes the one that violates them least.
    """
    if not search.restores or run.restorations >= MOST_RESTORATIONS:
        return "stalled"
    run.restorations += 1
    scales = run.constraint_scales()
    first, n = run.first_point, len(run.point)
    size = (norm(first) or 1.0) / np.sqrt(n)
    random = np.random.default_rng(0)
    away = [share * size * random.standard_normal(n) for share in PERTURBATIONS]
    best, proves = _Restoration(np.inf), False
    for start in (run.point, first, *(first + sign * step for step in away for sign in (1.0, -1.0))):
        attempt = _reduce_violation(run, start, scales, search)
        run.evaluations += attempt.evaluations
        proves |= attempt.is_stationary
        if attempt.violation < best.violation:
            best = attempt
        if best.violation <= search.tol:
            break
    here = _largest(np.array(run.violations), run.merit, scales, search.atol)
    if best.outcome is not None and best.violation < here:
        run.place(best.outcome)
        run.measure()
    if best.violation > search.tol:
        return "unattainable" if proves else "stalled"
    run.merit.price = max(PRICE_GROWTH * run.merit.price, 1.0)
    run.reset_metric(_sizes(run))
    run.radius, run.rejections, run.resets = run.first_radius, 0, 0
    return ""


@dataclass(frozen=True)
class _Restoration:
    """The smallest violation found from one start, and whether no first-order step reduces it."""

    violation: float
    is_stationary: bool = False
    outcome: Outcome | None = None
    evaluations: int = 0


def _reduce_violation(run: Run, start: Array, scales: Array, search: Search) -> _Restoration:
    """Minimise the largest violation of a run from a start, until it is within half the tolerance."""
    evaluator, merit = search.evaluator, run.merit
    point = (start if search.box is None else search.box.clip(start))[None]
    losses = evaluator.losses(point)
    if not np.isfinite(losses).all():
        return _Restoration(np.inf, evaluations=1)
    jacobian = evaluator.jacobians(np.zeros(1, dtype=np.int64))
    alone = violation_merit(merit, losses[0], run.terms())

    def violation_of(values: Array) -> float:
        found = np.array(merit.violations(merit.constraint_values(values)))
        return _largest(found, merit, scales, search.atol)

    def is_met(values: Array) -> bool:
        return violation_of(values) <= 0.5 * search.tol

    def is_stationary(run: int, point: Array, values: Array, jacobian: Array, seen: Seen) -> bool:
        del run
        J = jacobian if search.box is None else jacobian * (search.box.sides(point) == 0)
        rows, row_values = alone.order, alone.order_values(values)
        size = float(row_values.max())  # of what is left, beside which a row far from being violated has no part
        if is_met(values) or size <= 0:
            return True
        steepest = float(seen.order.max()) or 1.0
        gramian = J @ J.T / steepest**2
        lam = solve_exact(Program(rows, gramian, row_values / size - 1.0, np.ones(len(rows)), 1.0)).multipliers
        whole = float(lam @ seen.order)
        return norm(lam @ rows @ J) <= SMALLEST_VIOLATION * whole

    sub = replace(
        search,
        is_optimal=is_stationary,
        max_iter=0 if is_met(losses[0]) else RESTORATION_STEPS,
        on_round=lambda record: "stopped" if is_met(record.losses) else "",
        restores=False,
    )
    outcome = descend(sub, point, losses, jacobian, [alone])[0]
    return _Restoration(violation_of(outcome.losses), outcome.status == "converged", outcome, outcome.evaluations)


def descend(search: Search, points: Array, losses: Array, jacobian: Array, merits: Sequence[Merit]) -> list[Outcome]:
    """Runs every start to its end.

    Args:
        search: the functions, the certificate and the limits.
        points: starts, (P, n), in the box.
        losses: there, (P, m), the evaluator's last; runs where they are not finite end at once.
        jacobian: there, (P, m, n).
        merits: P of them, built for the losses at the starts.

    Returns:
        One outcome per start.
    """
    evaluator = search.evaluator
    cost, precision = 1 + evaluator.gradient_cost, evaluator.precision
    outcomes: dict[int, Outcome] = {}
    going = []
    for i, merit in enumerate(merits):
        run = Run(i, points[i], losses[i], jacobian[i], merit, search.box, search.errors, precision, cost)
        if np.isfinite(losses[i]).all() and np.isfinite(jacobian[i]).all():
            going.append(run)
        else:
            run.status = "non_finite"
            outcomes[i] = run.outcome()
    while going:
        steps = [step for run in going if (step := _next_step(run, search)) is not None]
        if steps:
            _try_all(steps, search)
        for run in going:
            if run.status:
                outcomes[run.index] = run.outcome()
        going = [run for run in going if not run.status]
    return [outcomes[i] for i in range(len(points))]


class _Trial(NamedTuple):
    """A step that is to be tried, with the measures of where it starts."""

    run: Run
    proposal: Proposal
    measures: Measures


def _next_step(run: Run, search: Search) -> _Trial | None:
    """The next step worth an evaluation; None where the run has ended, which its status then says."""
    while True:
        run.measure()
        proposal = propose(run)
        if _drop_hopeless_correction(run, proposal) or _drop_held_rows(run, proposal):
            continue
        measures = _measure(run, proposal, search.atol)
        restored = run.restorations
        run.status = _judge(run, proposal, measures, search)
        if run.status:
            return None
        if run.restorations > restored or _raise_price(run, proposal, measures, search.tol):
            continue
        if not _restart(run, measures, search.tol):
            return _Trial(run, proposal, measures)


def _drop_hopeless_correction(run: Run, proposal: Proposal) -> bool:
    """Drop a correction without a predicted decrease, which needs no evaluation; returns whether it was one."""
    if not run.is_correcting or proposal.predicted > run.noise:
        return False
    run.bend, run.corrections, run.radius = None, 0, run.retreat
    return True


def _try_all(steps: Sequence[_Trial], search: Search) -> None:
    """Evaluate the steps, take those that decrease the merit enough, and tell of the round."""
    evaluator = search.evaluator
    trials = [step.run.point + step.proposal.step for step in steps]
    if search.box is not None:
        trials = [search.box.clip(trial) for trial in trials]
    found = evaluator.losses(np.array(trials))
    before = [step.run.rejections for step in steps]
    accepted = [_is_accepted(step, losses) for step, losses in zip(steps, found, strict=True)]
    moving = [i for i, is_accepted in enumerate(accepted) if is_accepted]
    if moving:
        slopes = evaluator.jacobians(np.array(moving))
        for i, view in zip(moving, slopes, strict=True):
            run = steps[i].run
            jacobian = view.copy() if len(moving) > 1 else view  # the view would keep those of all runs
            run.evaluations += evaluator.gradient_cost
            accepted[i] = _move(run, steps[i].proposal, trials[i], found[i], jacobian, before[i])
    stop = ""
    for (run, proposal, measures), is_accepted in zip(steps, accepted, strict=True):
        run.wasted += not is_accepted
        numbers = measures.feasibility, measures.stationarity, proposal.length
        stop = search.on_round(Round(run.index, is_accepted, run.losses, proposal.weights, *numbers, run.point)) or stop
    if stop:
        for step in steps:
            step.run.status = stop


def _is_accepted(step: _Trial, losses: Array) -> bool:
    """Whether a trial's losses decrease the merit enough; resizes the radius accordingly."""
    run, proposal = step.run, step.proposal
    run.evaluations += 1
    if not np.isfinite(losses).all():
        _resize(run, proposal, None, -math.inf, accepted=False)
        return False
    actual = run.value - run.merit.value(losses)
    if not math.isfinite(actual):
        actual = -math.inf
    accepted = actual >= ACCEPTED_SHARE * proposal.predicted and actual > 0
    if not accepted and run.merit.price:
        accepted = _passes_at_lower_price(run, proposal, losses)
    if proposal.predicted <= run.noise and abs(actual) <= NOISES * run.noise and run.metric.is_scaled:
        accepted = True
        run.polished += 1
    _resize(run, proposal, losses, actual, accepted=accepted)
    return accepted


def _passes_at_lower_price(run: Run, proposal: Proposal, losses: Array) -> bool:
    """Whether a rejected step passes with a price of twice the largest multiplier, which then becomes the price.

    A price far above the multipliers makes the curvature of a constraint count for more than it does in the model, and
    each step along it is rejected. A price may fall only so often, so that no cycle is possible.
    """
    merit = run.merit
    needed = MULTIPLIERS * float(np.abs(proposal.constraint_part).max(initial=0.0))
    if not 0 < needed < merit.price or run.lowered >= MOST_LOWERED or run.is_correcting:
        return False
    ahead = sum(merit.violations(merit.constraint_values(losses)))
    fall = run.value - merit.price * run.violation - merit.worst(merit.order_values(losses))
    actual = fall + needed * (run.violation - ahead)
    predicted = proposal.predicted + (merit.price - needed) * (proposal.left - run.violation)
    if not (predicted > run.noise and actual >= ACCEPTED_SHARE * predicted):
        return False
    merit.price = needed
    run.lowered += 1
    return True


def _resize(run: Run, proposal: Proposal, losses: Array | None, actual: float, *, accepted: bool) -> None:
    """Grow the radius after good steps. After a bad one whose weighted losses did fall, first correct the step for the
    curvature that it met; else shrink to where a parabola through value, slope and new value has its foot.
    """  # noqa: D205
    predicted, length, is_scaled = proposal.predicted, proposal.length, run.metric.is_scaled
    change = None if losses is None else losses - run.losses
    fallen = -math.inf if change is None else -float(proposal.weights.dot(change))
    if accepted:
        as_modelled = is_scaled and not run.is_correcting and fallen >= GOOD_SHARE * proposal.expected
        if actual > GOOD_SHARE * predicted or as_modelled:
            run.radius = max(run.radius, GROWTH * length)
        run.bend, run.corrections, run.rejections = None, 0, 0
        return
    shortfall = predicted - actual
    foot = 0.5 * predicted / shortfall if shortfall > 0 else 0.0
    tried = length if length > 0 else run.radius  # where losses cancel, rounding may leave no step at all
    shrunk = run.retreat if run.is_correcting else tried * min(max(foot, 0.1), 0.5)
    is_closer = run.corrections == 0 or (
        run.corrections < MOST_CORRECTIONS and shortfall <= CONTRACTION * run.shortfall
    )
    run.retreat, run.shortfall = shrunk, shortfall
    if change is not None and is_scaled and is_closer and fallen >= ACCEPTED_SHARE * proposal.expected:
        run.bend = change - run.jacobian @ proposal.step
        run.corrections += 1
    else:
        is_unseen = abs(actual) <= run.noise and run.is_blind()
        run.radius = GROWTH * tried if is_unseen else shrunk
        run.bend, run.corrections = None, 0
    run.rejections += 1


def _move(run: Run, proposal: Proposal, trial: Array, losses: Array, jacobian: Array, rejections: int) -> bool:
    """Take an accepted step. A run whose losses diverge stays and ends; without gradients there it steps back."""
    if not np.isfinite(jacobian).all():
        run.radius = BACK * proposal.length
        run.rejections = rejections + 1
        return False
    if not (np.abs(losses).max() < DIVERGED and np.abs(jacobian).max() < DIVERGED):
        run.status = "non_finite"
        return False
    change = proposal.weights @ (jacobian - run.jacobian)
    run.metric.update(trial - run.point, change, -proposal.eta * proposal.slopes)
    run.point, run.losses = trial, losses
    run.take(jacobian)
    run.iterations += 1
    run.merit.renew(losses)
    return True
