"""Many runs at once: where each is, what it has learned, and what is reported of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ferero.optimize.evaluator import Evaluator
from ferero.optimize.merit import Mask, Merit
from ferero.optimize.metric import Metric, make_metric
from ferero.optimize.scale import Seen, gradient_scale
from ferero.subprogram.program import EPSILON, Array

__all__ = ["Outcome", "Round", "Runs"]

FIRST_SHARE = 0.3  # of the first length scale that the first radius takes
RESET_SHARE = 1e-2  # of the first radius, after the metric was forgotten
BLIND_STEPS = 12  # longer and longer ones, before a plateau is believed


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
    seen: Seen
    iterations: int
    evaluations: int
    gradient_evaluations: int


class Runs:
    """The runs still going.

    Attributes:
        ids: their indices, (P,).
        points, losses, jacobian: (P, n), (P, m), (P, m, n).
        first_losses: at the start, (P, m).
        norms, largest: of each loss's gradient, here and so far, (P, m).
        largest_asked: of the gradient of each row that the preferences order by, so far, (P, k).
        radius, first_radius: the trust radius, (P,); resets: how often the metric was forgotten, (P,).
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
        self.largest, self.largest_asked = np.zeros_like(losses), np.zeros(merit.asked.shape[:2])
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
        self.largest_asked = np.maximum(self.largest_asked, _norms(self.merit.asked @ jacobian))

    def seen(self, i: int) -> Seen:
        """What one run has seen."""
        return Seen(self.first_losses[i], self.sizes()[i], self.largest_asked[i])

    def sizes(self) -> Array:
        """What each loss's gradient counts as being of, (P, m)."""
        return gradient_scale(self.norms, self.largest)

    def is_blind(self) -> Mask:
        """Runs without any curvature yet may be on a plateau whose slope only longer steps can show."""
        unscaled = ~self.metric.is_scaled
        if not unscaled.any():
            return unscaled
        return np.asarray(unscaled & (self.rejections < BLIND_STEPS) & (self.norms > 0).any(axis=-1))

    def start_afresh(self, runs: Mask) -> None:
        """Forget the metric of the masked runs and go on with small steps."""
        self.metric.reset(runs)
        self.radius = np.where(runs, RESET_SHARE * self.first_radius, self.radius)
        self.rejections = np.where(runs, 0, self.rejections)
        self.resets = self.resets + runs

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
