"""A method's own iteration ``x <- x - t gradF w``: weights from the method at every step, t from a step rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from ferero._arrays import Array
from ferero.methods import Merited, Method, Observation
from ferero.optimize._evaluator import Evaluator
from ferero.optimize._outcome import Outcome, Round, Seen
from ferero.optimize._scale import DIVERGED, gradient_scale, norms_of, reaches_of, relative_columns, row_scale
from ferero.preference import Preference

__all__ = ["Backtracking", "FixedStep", "StepRule", "Taken", "iterate"]

CANCELLED = 1e-12  # of what the gradients would add up to if nothing cancelled
FIRST_LENGTH = 0.5  # of the first step tried, as a distance
SUFFICIENT = 0.1  # share of the predicted fall that must come true
SHORTER, LONGER = 0.3, 2.5
NEARBY = (
    1e-7,
    1e-9,
    1e-11,
    1e-13,
)  # of the losses' size: how far ahead the merit's rate is differenced
TRIALS = 60


class Taken(NamedTuple):
    """A step: where it leads, the losses there, its length as a multiple of the direction, and its evaluations.

    A step of 0 stays where it is: no step decreased the merit.
    """

    point: Array
    losses: Array
    step: float
    trials: int


class StepRule(Protocol):
    """Chooses the step; keeps what it learns of its length."""

    def __call__(self, evaluator: Evaluator, x: Array, losses: Array, jacobian: Array, weights: Array) -> Taken:
        """The step along ``-weights @ jacobian``."""


@dataclass(frozen=True)
class FixedStep:
    """``x <- x + step d``, as the paper prints it."""

    step: float

    def __call__(self, evaluator: Evaluator, x: Array, losses: Array, jacobian: Array, weights: Array) -> Taken:  # noqa: ARG002
        """The step, accepted unconditionally."""
        point = x - self.step * (weights @ jacobian)
        return Taken(point, evaluator.losses(point[None])[0], self.step, 1)


class Backtracking:
    """``x <- x + t d`` with the first t of a falling sequence for which the method's merit falls enough (Armijo).

    The first length tried is a distance, whatever the gradients' size; it grows after a step that fits at once.

    Args:
        method: says by how much its merit changes.
        preference: in terms of ``F - lower``.
        lower: subtracted from the losses before the method sees them, (m,).
    """

    def __init__(self, method: Merited, preference: Preference, lower: Array) -> None:
        self._method, self._preference, self._lower = method, preference, lower
        self._length = FIRST_LENGTH

    def __call__(self, evaluator: Evaluator, x: Array, losses: Array, jacobian: Array, weights: Array) -> Taken:
        """The step; none where no t makes the merit fall: the method has converged by its own merit."""
        direction = -weights @ jacobian
        size = float(np.linalg.norm(direction))
        rate = self._rate(losses, jacobian @ direction)
        if size <= CANCELLED * float(np.abs(weights) @ np.linalg.norm(jacobian, axis=1)) or rate >= 0:
            return Taken(x, losses, 0.0, 0)
        t = self._length / size
        for trial in range(1, TRIALS + 1):
            point = x + t * direction
            ahead = evaluator.losses(point[None])[0]
            if (np.abs(ahead) < DIVERGED).all() and self._change(losses, ahead) <= SUFFICIENT * t * rate:
                self._length = t * size * (LONGER if trial == 1 else 1.0)
                return Taken(point, ahead, t, trial)
            t *= SHORTER
        return Taken(x, losses, 0.0, TRIALS)

    def _change(self, before: Array, after: Array) -> float:
        seen = (torch.from_numpy(losses - self._lower) for losses in (before, after))
        return float(self._method.change(self._preference, *seen))

    def _rate(self, losses: Array, slopes: Array) -> float:
        """The merit's slope, by a difference within the first digits of the losses, where a maximum is linear.

        A merit that bends within them (smooth Tchebycheff far below its losses) is differenced over a shorter distance.
        """
        size, pace = float(np.abs(losses - self._lower).max()), float(np.abs(slopes).max())
        if pace == 0:
            return 0.0
        for nearby in NEARBY:
            h = nearby * (size or 1.0) / pace
            rate = self._change(losses, losses + h * slopes) / h
            if rate < 0:
                break
        return rate


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
    on_round: Callable[[Round], str],
) -> Outcome:
    """Runs ``max_iter`` steps, or until the certificate holds or the rule finds no step.

    Args:
        evaluator: the losses.
        start: (n,).
        preference: already in terms of ``F - lower``.
        method: its update is called once a step, before the step is taken.
        is_optimal: ``(losses, jacobian, what was seen) -> bool``.
        rule: how far to go.
        max_iter: steps.
        lower: subtracted from the losses before the method sees them, (m,).
        on_round: called after every step; a word that is not empty ends the run, with it as the status.
    """
    x, state = start.copy(), method.init(preference)
    losses = evaluator.losses(x[None])[0]
    A, first = preference.A.numpy(), losses
    largest, largest_asked = np.zeros(evaluator.m), np.zeros(len(A))
    low, high, columns = losses, losses, np.zeros(x.size)
    seen = Seen(first, largest, largest_asked, np.zeros(evaluator.m), columns)
    last: _Step | None = None
    status, iteration, calls = "max_iter", 0, 1
    while True:
        jacobian = evaluator.jacobians(ONE)[0]
        if not (np.abs(losses) < DIVERGED).all() or not (np.abs(jacobian) < DIVERGED).all():
            status = "non_finite"
            if last is not None:
                x, losses, jacobian = last.origin
            break
        norms = norms_of(jacobian)
        largest = np.maximum(largest, norms)
        low, high = np.minimum(low, losses), np.maximum(high, losses)
        columns = np.maximum(columns, relative_columns(jacobian, norms))
        spans = np.maximum(high - low, reaches_of(x, jacobian))
        largest_asked = np.maximum(largest_asked, np.linalg.norm(A @ jacobian, axis=1))
        seen = Seen(first, gradient_scale(norms, largest), largest_asked, spans, columns)
        if last is not None and (stop := on_round(_round(x, losses, last))):
            status = stop
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
    """Whether the method's own direction has vanished, which is where the method leads."""
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
    return Round(0, True, losses, last.weights, last.violation, np.nan, last.length, x)
