"""The runs of the trust-region search that are still going, as arrays over them."""

from __future__ import annotations

import numpy as np

from ferero._arrays import Array, Mask
from ferero.optimize._box import Box
from ferero.optimize._evaluator import Evaluator
from ferero.optimize._merit import REACH, Merit
from ferero.optimize._metric import Metric, make_metric
from ferero.optimize._outcome import Outcome, Seen
from ferero.optimize._scale import constraint_scale, gradient_scale, relative_columns, row_scale, still_counts

__all__ = ["Runs", "norms_of", "reaches_of"]

FIRST_SHARE = 0.3  # of the first length scale that the first radius takes
BOX_SHARE = 0.5  # of the box's diagonal that the first radius is at most
COLUMN_LIMIT = 20_000  # parameters up to which each one's own slope is judged; more would cost further passes
BLIND_STEPS = 12  # longer and longer ones, before a plateau counts as one


class Runs:
    """The runs still going.

    Attributes:
        ids: their indices, (P,).
        points, losses, jacobian: (P, n), (P, m), (P, m, n); m counts the constraints in x too.
        first_points, first_losses: at the start, (P, n), (P, m).
        low, high: the losses' range so far, (P, m).
        norms, largest: of each loss's gradient, here and so far, (P, m).
        largest_order: of the gradient of each row that the preferences order by, so far, (P, k).
        columns: the largest share of a loss's gradient that each parameter had so far, (P, n).
        reach: the length of a change of x over which losses without another scale are measured, (P,).
        radius, first_radius: the trust radius, (P,); resets: how often the metric was reset, (P,).
        bend: what a rejected step showed of the losses beyond first order, (P, m); zero unless ``correcting``.
        corrections: how often the present step was corrected; shortfall: the merit that the last trial lacked; (P,).
        retreat: the radius to go back to if the correction fails, (P,).
        rejections: in a row; iterations: accepted steps; evaluations: (P,).
        polished: steps taken although their effect was below rounding; wasted: steps not taken; (P,).
        restorations: how often a point that meets the constraints was searched for and found, (P,).
        raised_at: the iteration of the last rise of the price; lowered: how often it fell; (P,).
        held: parameters that the last proposal kept at a bound, (P, n); None without bounds.
        order_values, constraint_values, violation, value: of the merit here, after `measure`.
        noise: differences of the merit that mean nothing, (P,).
    """

    def __init__(
        self,
        evaluator: Evaluator,
        points: Array,
        losses: Array,
        jacobian: Array,
        merit: Merit,
        box: Box | None,
        errors: Array | None,
        in_x: Mask,
    ) -> None:
        P, n = points.shape
        self.ids = np.arange(P)
        self.points, self.losses, self.merit = points, losses, merit
        self.first_points, self.first_losses = points, losses
        self.low, self.high = losses.copy(), losses.copy()
        self.largest, self.largest_order = np.zeros_like(losses), np.zeros(merit.asked.shape[:2])
        self.columns = np.zeros_like(points) if n <= COLUMN_LIMIT else np.ones((P, n))
        self._is_plain = merit.asked.shape[1:] == (losses.shape[1],) * 2 and bool(
            (merit.asked == np.eye(losses.shape[1])).all()
        )
        self.reach = _reach(points)
        self.take(jacobian)
        self.box, self._errors, self._in_x, self._rounding = box, errors, in_x, 4.0 * evaluator.precision
        self.radius = _first_radius(points, losses - merit.lower, self.norms, box)
        self.first_radius = self.radius
        self.resets = np.zeros(P, dtype=np.int64)
        self.metric: Metric = make_metric(P, n)
        self.bend = np.zeros_like(losses)
        self.correcting: Mask = np.zeros(P, dtype=bool)
        self.corrections = np.zeros(P, dtype=np.int64)
        self.shortfall = np.zeros(P)
        self.retreat = np.zeros(P)
        self.rejections = np.zeros(P, dtype=np.int64)
        self.iterations = np.zeros(P, dtype=np.int64)
        self.polished = np.zeros(P, dtype=np.int64)
        self.wasted = np.zeros(P, dtype=np.int64)
        self.lowered = np.zeros(P, dtype=np.int64)
        self.restorations = np.zeros(P, dtype=np.int64)
        self.raised_at = np.full(P, -1)
        self.evaluations = np.full(P, 1 + evaluator.gradient_cost)
        self.held: Mask | None = None if box is None else np.zeros(points.shape, dtype=bool)

    def __len__(self) -> int:
        return len(self.ids)

    def measure(self) -> None:
        """Bring what the merit says of the current losses up to date."""
        merit = self.merit
        self.order_values = merit.order_values(self.losses)
        self.constraint_values = merit.constraint_values(self.losses)
        self.violation = merit.violation(self.constraint_values)
        self.value = merit.worst(self.order_values) + merit.price * self.violation.sum(axis=-1)
        self.noise = self._rounding * merit.magnitude(self.losses)
        if self._errors is not None:
            self.noise = np.maximum(self.noise, merit.magnitude(np.broadcast_to(self._errors, self.losses.shape), 0.0))

    def take(self, jacobian: Array) -> None:
        """The gradients of the current points, (P, m, n)."""
        self.jacobian, self.norms = jacobian, norms_of(jacobian)
        self.largest = np.maximum(self.largest, self.norms)
        asked = self.norms if self._is_plain else norms_of(self.merit.asked @ jacobian)
        self.largest_order = np.maximum(self.largest_order, asked)
        if jacobian.shape[-1] <= COLUMN_LIMIT:
            self.columns = np.maximum(self.columns, relative_columns(jacobian, self.norms))
        self.low, self.high = np.minimum(self.low, self.losses), np.maximum(self.high, self.losses)

    def seen(self, i: int) -> Seen:
        """The sizes that one run has met."""
        return Seen(self.first_losses[i], self.sizes()[i], self.largest_order[i], self.spans()[i], self.columns[i])

    def sizes(self) -> Array:
        """The size that each loss's gradient counts as having, (P, m)."""
        return gradient_scale(self.norms, self.largest)

    def spans(self) -> Array:
        """How much each loss varies: its range so far, or what its gradient makes of a change nearby; (P, m)."""
        with np.errstate(invalid="ignore"):  # losses of inf have no range
            return np.maximum(self.high - self.low, self.largest * self.reach[:, None])

    def constraint_scales(self) -> Array:
        """The size against which each constraint's violation is measured, in the merit's units, (P, k_c)."""
        merit = self.merit
        counting = still_counts(self.losses, self.first_losses)
        in_x = (merit.rows[:, :, self._in_x] != 0).any(axis=-1) if self._in_x.any() else None
        return constraint_scale(merit.rows, merit.offsets, counting, self.spans(), in_x)

    def terms(self, i: int) -> Array:
        """The size of each constraint's terms, of those in x what they vary by, for one run, (k_c,)."""
        merit, counting = self.merit, still_counts(self.losses[i], self.first_losses[i])
        terms = row_scale(merit.rows[i], merit.offsets[i], counting)
        in_x = (merit.rows[i][:, self._in_x] != 0).any(axis=-1)
        return np.where(in_x, self.constraint_scales()[i], terms)

    def is_blind(self) -> Mask:
        """Runs without any curvature yet may be on a plateau whose slope only longer steps can show."""
        unscaled = ~self.metric.is_scaled
        if not unscaled.any():
            return unscaled
        return np.asarray(unscaled & (self.rejections < BLIND_STEPS) & (self.norms > 0).any(axis=-1))

    def keep(self, runs: Mask) -> None:
        """Forget the runs that are not masked."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and not name.startswith("_"):
                setattr(self, name, value[runs])
        self.merit.keep(runs)
        self.metric.keep(runs)

    def place(self, i: int, outcome: Outcome) -> None:
        """Move one run to where another search of it ended."""
        jacobian = self.jacobian.copy()
        jacobian[i] = outcome.jacobian
        self.points, self.losses = self.points.copy(), self.losses.copy()
        self.points[i], self.losses[i] = outcome.point, outcome.losses
        self.take(jacobian)

    def outcome(self, i: int, status: str) -> Outcome:
        """The end of one run."""
        steps = int(self.iterations[i])
        counts = steps, int(self.evaluations[i]), steps + 1
        return Outcome(status, self.points[i], self.losses[i], self.jacobian[i], self.seen(i), *counts)


def norms_of(vectors: Array) -> Array:
    """The Euclidean norms, (...), of vectors (..., n)."""
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", vectors, vectors)))


def _reach(points: Array) -> Array:
    size = norms_of(points)
    return np.asarray(REACH * np.where(size > 0, size, 1.0))


def reaches_of(points: Array, jacobian: Array) -> Array:
    """By how much each loss changes, to first order, where x changes by its own size; (P, m)."""
    return norms_of(jacobian) * _reach(points)[:, None]


def _first_radius(points: Array, losses: Array, sizes: Array, box: Box | None) -> Array:
    """The parameters' size, or less if a shorter step already brings every loss to its bound to first order; (P,)."""
    size = norms_of(points)
    to_bound = np.where((losses > 0) & (sizes > 0), losses / np.where(sizes > 0, sizes, 1.0), 0.0).max(axis=-1)
    shortest = np.minimum(np.where(size > 0, size, np.inf), np.where(to_bound > 0, to_bound, np.inf))
    radius = FIRST_SHARE * np.where(np.isfinite(shortest), shortest, 1.0)
    if box is not None and np.isfinite(widths := box.widths()).all():
        radius = np.minimum(radius, max(BOX_SHARE * float(np.linalg.norm(widths)), 1e-300))
    return np.asarray(radius)
