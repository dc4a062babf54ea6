"""A method's own iteration: ``x <- x - t gradF w``, the weights asked for at every step, t by a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from ferero.methods import Method, Observation
from ferero.optimize.evaluator import Evaluator
from ferero.optimize.runs import Outcome, Round
from ferero.optimize.scale import Seen, gradient_scale, row_scale
from ferero.optimize.step_rule import DIVERGED, StepRule
from ferero.preference import Preference
from ferero.subprogram.program import Array

__all__ = ["iterate"]

ONE = np.zeros(1, dtype=np.int64)
SETTLED = 1e-4  # of what the gradients would add up to: a direction as short as that, which no step helps, has arrived
VANISHED = 1e-9  # the same for one that could still be followed


def iterate(
    evaluator: Evaluator,
    start: Array,
    preference: Preference,
    method: Method[Any],
    is_optimal: Callable[[Array, Array, Seen], bool],
    *,
    rule: StepRule,
    max_iter: int,
    lower: Array,
    on_round: Callable[[Round], bool],
) -> Outcome:
    """Runs ``max_iter`` steps, or until the certificate holds or the rule finds no step.

    Args:
        evaluator: the losses.
        start: (n,).
        preference: already in terms of ``F - lower``.
        method: asked once a step, before it is taken.
        is_optimal: ``(losses, jacobian, what was seen) -> bool``.
        rule: how far to go.
        max_iter: steps.
        lower: what the method does not see of the losses, (m,).
        on_round: called after every step; True ends the run.
    """
    x, state = start.copy(), method.init(preference)
    losses = evaluator.losses(x[None])[0]
    A, first = preference.A.numpy(), losses
    largest, largest_asked = np.zeros(evaluator.m), np.zeros(len(A))
    seen = Seen(first, largest, largest_asked)
    last: _Step | None = None
    status, iteration, calls = "max_iter", 0, 1
    while True:
        jacobian = evaluator.jacobians(ONE)[0]
        if not (np.abs(losses) < DIVERGED).all() or not (np.abs(jacobian) < DIVERGED).all():
            status = "non_finite"
            if last is not None:
                x, losses, jacobian = last.origin
            break
        norms = np.linalg.norm(jacobian, axis=1)
        largest = np.maximum(largest, norms)
        largest_asked = np.maximum(largest_asked, np.linalg.norm(A @ jacobian, axis=1))
        seen = Seen(first, gradient_scale(norms, largest), largest_asked)
        if last is not None and on_round(_round(x, losses, last)):
            status = "stopped"
            break
        if is_optimal(losses, jacobian, seen):
            status = "converged"
            break
        if iteration >= max_iter:
            if last is not None and _has_arrived(last.weights, jacobian, norms, VANISHED):
                status = "settled"
            break
        gramian = jacobian @ jacobian.T
        observation = Observation(
            losses=torch.from_numpy(losses - lower),
            gramian=torch.from_numpy(gramian),
            slopes=None if last is None else torch.from_numpy(last.slopes),
        )
        decision, state = method.update(preference, observation, state)
        weights = decision.weights.double().numpy()
        taken = rule(evaluator, x, losses, jacobian, weights)
        calls += taken.trials
        if taken.step == 0:
            status = "settled" if _has_arrived(weights, jacobian, norms, SETTLED) else "stalled"
            break
        violation = _relative_violation(preference, losses - lower)
        length = taken.step * float(np.linalg.norm(weights @ jacobian))
        last = _Step((x, losses, jacobian), weights, -gramian @ weights, violation, length)
        x, losses = taken.point, taken.losses
        iteration += 1
    gradients = iteration + 1
    calls += gradients * evaluator.gradient_cost
    return Outcome(status, x, losses, jacobian, seen, iteration, calls, gradients)


def _has_arrived(weights: Array, jacobian: Array, norms: Array, share: float) -> bool:
    """Whether the method's own direction has vanished: it is where it leads to, wherever that is."""
    return float(np.linalg.norm(weights @ jacobian)) <= share * float(np.abs(weights) @ norms)


def _relative_violation(preference: Preference, losses: Array) -> float:
    """The largest violation, each relative to ``|B||F| + |b|``."""
    rows = torch.cat([preference.B_g, preference.B_h]).numpy()
    size = row_scale(rows, torch.cat([preference.b_g, preference.b_h]).numpy(), losses)
    relative = preference.violation(losses).numpy() / size
    return float(relative.max(initial=0.0))


class _Step(NamedTuple):
    """The step just taken: where from, with which weights, and its infinitesimal slopes."""

    origin: tuple[Array, Array, Array]
    weights: Array
    slopes: Array
    violation: float
    length: float


def _round(x: Array, losses: Array, last: _Step) -> Round:
    return Round(
        runs=ONE,
        accepted=np.ones(1, dtype=bool),
        losses=losses[None],
        weights=last.weights[None],
        violation=np.array([last.violation]),
        stationarity=np.array([np.nan]),
        length=np.array([last.length]),
        points=x[None],
    )
