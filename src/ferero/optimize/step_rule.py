"""How far a method's own iteration goes along its direction: a fixed step, or one that makes its merit fall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch

from ferero.methods import Merited
from ferero.optimize.evaluator import Evaluator
from ferero.preference import Preference
from ferero.subprogram.program import Array

__all__ = ["DIVERGED", "Backtracking", "FixedStep", "StepRule", "Taken"]

DIVERGED = 1e100  # losses and gradients beyond this are as good as infinite
VANISHED = 1e-12  # of what the gradients would add up to if nothing cancelled
FIRST_LENGTH = 0.5  # of the first step tried, as a distance
SUFFICIENT = 0.1  # share of the predicted fall that must come true
SHORTER, LONGER = 0.3, 2.5
NEARBY = (1e-7, 1e-9, 1e-11, 1e-13)  # of the losses' size: how far the rate of the merit looks ahead, at most
TRIALS = 60


class Taken(NamedTuple):
    """A step: where it leads, the losses there, its length as a multiple of the direction, and its evaluations.

    A step of 0 stays where it is: none was worth taking.
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
        """The step, whatever comes of it."""
        point = x - self.step * (weights @ jacobian)
        return Taken(point, evaluator.losses(point[None])[0], self.step, 1)


class Backtracking:
    """``x <- x + t d`` with the first t of a falling sequence for which the method's merit falls enough (Armijo).

    The first length tried is a distance, whatever the gradients' size; it grows after a step that fits at once.

    Args:
        method: says by how much its merit changes.
        preference: in terms of ``F - lower``.
        lower: what the method does not see of the losses, (m,).
    """

    def __init__(self, method: Merited, preference: Preference, lower: Array) -> None:
        self._method, self._preference, self._lower = method, preference, lower
        self._length = FIRST_LENGTH

    def __call__(self, evaluator: Evaluator, x: Array, losses: Array, jacobian: Array, weights: Array) -> Taken:
        """The step; none where no t makes the merit fall: the method has arrived where it wants to be."""
        direction = -weights @ jacobian
        size = float(np.linalg.norm(direction))
        rate = self._rate(losses, jacobian @ direction)
        if size <= VANISHED * float(np.abs(weights) @ np.linalg.norm(jacobian, axis=1)) or rate >= 0:
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

        A merit that bends within them (smooth Tchebycheff far below its losses) is looked at from nearer by.
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
