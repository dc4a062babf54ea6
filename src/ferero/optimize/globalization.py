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

import numpy as np

from ferero.optimize.evaluator import Evaluator
from ferero.optimize.merit import Mask, Merit
from ferero.optimize.proposal import Proposal, propose
from ferero.optimize.runs import Outcome, Round, Runs
from ferero.optimize.step_rule import DIVERGED
from ferero.optimize.verdict import IsOptimal, Measures, drop_held_rows, judge, measure, raise_prices, start_afresh
from ferero.subprogram.program import Array

__all__ = ["descend"]

ACCEPTED_SHARE = 0.1  # of the predicted decrease that a step must bring
GOOD_SHARE = 0.75  # above which the radius grows
GROWTH = 2.5


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
        proposal = propose(runs)
        if _drop_hopeless_corrections(runs, proposal) or drop_held_rows(runs, proposal):
            continue
        measures = measure(runs, proposal)
        done = judge(runs, proposal, measures, is_optimal, max_iter, tol)
        if done:
            going = end(done)
            proposal, measures = proposal.keep(going), measures.keep(going)
        if not len(runs) or raise_prices(runs, proposal, measures, tol).any():
            continue
        if not start_afresh(runs, measures, tol).any():
            end(_try(evaluator, runs, proposal, measures, on_round))
    return [outcomes[i] for i in range(len(points))]


def _is_finite(runs: Runs) -> Mask:
    return np.asarray(np.isfinite(runs.losses).all(axis=-1) & np.isfinite(runs.jacobian).all(axis=(1, 2)))


def _drop_hopeless_corrections(runs: Runs, proposal: Proposal) -> bool:
    """Corrections that promise nothing are not worth an evaluation; whether there were any."""
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
    """Evaluate the steps, take those that bring what they promised, learn from them; returns the runs that must end."""
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
    """Take the accepted steps; runs whose losses or gradients are beyond all measure there stay and end."""
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
