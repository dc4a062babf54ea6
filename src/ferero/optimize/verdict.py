"""Whether a run has arrived, is held, must pay more for its constraints, or cannot have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ferero.optimize.merit import Mask
from ferero.optimize.proposal import Proposal
from ferero.optimize.runs import Runs
from ferero.optimize.scale import Seen, row_scale, still_counts
from ferero.subprogram import Program, solve_exact
from ferero.subprogram.program import EPSILON, Array

__all__ = ["IsOptimal", "Measures", "drop_held_rows", "judge", "measure", "raise_prices", "start_afresh"]

NEARLY_STATIONARY = 1e-3  # relative stationarity at which an unmet constraint raises its price
WITHOUT_PRICE = 1e-4  # the same for a line that has none yet
PRICE_GROWTH = 10.0
HIGHEST_PRICE = 1e8
STUCK_VIOLATION = 1e-3  # relative size of the violation's gradient below which it cannot be reduced
MOST_REJECTIONS = 30
MOST_RESETS = 2
HELD = 1e-5  # relative size of weights that counts as cancelled by the constraints

IsOptimal = Callable[[int, Array, Array, Seen], bool]  # (run, losses, jacobian, what it has seen)


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


def measure(runs: Runs, proposal: Proposal) -> Measures:
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


def judge(
    runs: Runs, proposal: Proposal, measures: Measures, is_optimal: IsOptimal, max_iter: int, tol: float
) -> dict[int, str]:
    """How the runs that are done have ended, by their place among those going."""
    done: dict[int, str] = {}
    arrived = (measures.stationarity <= tol) & (measures.feasibility <= tol) & (measures.decrement <= tol)
    spent = runs.iterations >= max_iter
    wanting = _wants_a_higher_price(runs, proposal, measures, tol)
    if not (arrived | measures.exhausted | spent | wanting).any():
        return done
    unmet = measures.feasibility > tol
    for i in np.flatnonzero(arrived | measures.exhausted | spent | wanting):
        is_candidate = arrived[i] or measures.exhausted[i] or spent[i]
        may_pay_more = unmet[i] and runs.merit.price[i] < HIGHEST_PRICE
        if is_candidate and is_optimal(int(runs.ids[i]), runs.losses[i], runs.jacobian[i], runs.seen(int(i))):
            done[int(i)] = "converged"
        elif unmet[i] and (measures.exhausted[i] or wanting[i]) and _is_violation_stuck(runs, int(i), tol):
            done[int(i)] = "unattainable"
        elif measures.exhausted[i] and not may_pay_more and runs.resets[i] >= MOST_RESETS:
            done[int(i)] = "stalled"
        elif spent[i]:
            done[int(i)] = "max_iter"
    return done


def start_afresh(runs: Runs, measures: Measures, tol: float) -> Mask:
    """Before a run is given up for lack of progress its metric is forgotten: it may be what is wrong; returns where."""
    afresh = measures.exhausted & (runs.resets < MOST_RESETS)
    afresh &= ~((measures.feasibility > tol) & (runs.merit.price < HIGHEST_PRICE))
    if afresh.any():
        runs.start_afresh(afresh)
    return np.asarray(afresh)


def raise_prices(runs: Runs, proposal: Proposal, measures: Measures, tol: float) -> Mask:
    """Multiply the price where a violation would stay for good; returns where."""
    wanting = _wants_a_higher_price(runs, proposal, measures, tol)
    wanting |= (measures.feasibility > tol) & measures.exhausted
    wanting |= _would_violate(runs, proposal, tol)
    wanting &= runs.merit.price < HIGHEST_PRICE
    if wanting.any():
        runs.merit.price = np.where(wanting, np.maximum(PRICE_GROWTH * runs.merit.price, 1.0), runs.merit.price)
        runs.rejections = np.where(wanting, 0, runs.rejections)
        runs.raised_at = np.where(wanting, runs.iterations, runs.raised_at)
    return wanting


def _wants_a_higher_price(runs: Runs, proposal: Proposal, measures: Measures, tol: float) -> Mask:
    """Nearly stationary, at a point the present price has led to, with a violation that the step would not mend."""
    unmended = (measures.feasibility > tol) & (proposal.left > 0.5 * runs.violation.sum(axis=-1))
    threshold = np.where(runs.merit.price > 0, NEARLY_STATIONARY, WITHOUT_PRICE)
    has_moved = runs.iterations > runs.raised_at
    return np.asarray(unmended & (measures.balance <= threshold) & has_moved & ~runs.correcting)


def _would_violate(runs: Runs, proposal: Proposal, tol: float) -> Mask:
    """Where violating a constraint further is worth its price, the price is too low."""
    worse = proposal.left > (1.0 + tol) * runs.violation.sum(axis=-1) + tol
    return np.asarray(worse & (runs.merit.price > 0) & ~runs.correcting)


def drop_held_rows(runs: Runs, proposal: Proposal) -> bool:
    """Rows of the order that active constraints hold, whatever the gradients, stop the others no more; whether any.

    Without this every point with ``f.c == 0.7`` would be optimal while c is among the objectives: c cannot fall, so
    not all of them can. What cannot be improved is taken out of the order, and the rest is minimised. A row that
    rests on an inequality could rise again for the others' sake, so it is asked not to, beyond what the inequality
    still wants of it.
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
