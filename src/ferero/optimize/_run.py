"""One run of the trust-region search: where it is, what it has seen, and how its steps fared."""

from __future__ import annotations

import math

import numpy as np

from ferero._arrays import Array, Mask
from ferero.optimize._box import Box
from ferero.optimize._merit import Merit
from ferero.optimize._metric import Metric, make_metric
from ferero.optimize._outcome import Outcome, Seen
from ferero.optimize._scale import (
    gradient_scale,
    norm,
    norms_of,
    reach_of,
    relative_columns,
    still_counts,
)

__all__ = ["Run"]

FIRST_SHARE = 0.3  # of the first length scale that the first radius takes
BOX_SHARE = 0.5  # of the box's diagonal that the first radius is at most
COLUMN_LIMIT = 20_000  # parameters up to which each one's own slope is judged; more would cost further passes
BLIND_STEPS = 12  # longer and longer ones, before a plateau counts as one


class Run:
    """A run that is still going. Numbers are Python's: for so few of them arrays cost more than the arithmetic.

    Attributes:
        index: which of the runs it is.
        point, losses, jacobian: (n,), (m,), (m, n); m counts the constraints in x too.
        first_point, first_losses: at the start, (n,), (m,).
        norms, largest: of each loss's gradient, here and so far, (m,).
        largest_order: of the gradient of each row that the preference orders by, so far, (k,).
        columns: the largest share of a loss's gradient that each parameter had so far, (n,).
        radius, first_radius: the trust radius; resets: how often the metric was reset.
        bend: what a rejected step showed of the losses beyond first order, (m,), while it is being corrected; or None.
        corrections: how often the present step was corrected; shortfall: the merit that the last trial lacked.
        retreat: the radius to go back to if the correction fails.
        rejections: in a row; iterations: accepted steps; evaluations.
        polished: steps taken although their effect was below rounding; wasted: steps not taken.
        restorations: how often a point that meets the constraints was searched for and found.
        raised_at: the iteration of the last rise of the price; lowered: how often it fell.
        held: parameters that the last proposal kept at a bound, (n,); None without bounds.
        multipliers: of the last subprogram, the first guess of the next; None before.
        order_values, constraint_values, violations, violation (their sum), value: of the merit here, after `measure`.
        noise: differences of the merit that mean nothing.
        applied, gramian: ``J M`` (m, n) and ``J M J^T`` (m, m), after `measure`.
        status: how it ended; empty while it goes on.
    """

    def __init__(
        self,
        index: int,
        point: Array,
        losses: Array,
        jacobian: Array,
        merit: Merit,
        box: Box | None,
        errors: Array | None,
        precision: float,
        evaluations: int,
    ) -> None:
        self.index, self.status = index, ""
        self.point, self.losses, self.merit, self.box = point, losses, merit, box
        self.first_point, self.first_losses = point, losses
        self._low, self._high = losses, losses
        m, n = jacobian.shape
        self.largest, self.largest_order = np.zeros(m), np.zeros(len(merit.asked))
        self.columns = np.zeros(n) if n <= COLUMN_LIMIT else np.ones(n)
        self._is_plain = merit.asked.shape == (m, m) and bool((merit.asked == np.eye(m)).all())
        self._reach = reach_of(point)
        self._errors, self._rounding = errors, 4.0 * precision
        self.metric: Metric = make_metric(n)
        self._is_metric_stale = True
        self.take(jacobian)
        self.radius = self.first_radius = _first_radius(point, losses - merit.lower, self.norms, box)
        self.bend: Array | None = None
        self.shortfall = self.retreat = 0.0
        self.corrections = self.rejections = self.iterations = self.polished = self.wasted = 0
        self.resets = self.restorations = self.lowered = 0
        self.raised_at = -1
        self.evaluations = evaluations
        self.multipliers: Array | None = None
        self.held: Mask | None = None if box is None else np.zeros(n, dtype=bool)

    @property
    def is_correcting(self) -> bool:
        """Whether the next step is the last one corrected."""
        return self.bend is not None

    def measure(self) -> None:
        """Bring what the merit and the metric say of the current point up to date."""
        merit = self.merit
        self.order_values = merit.order_values(self.losses)
        self.constraint_values = merit.constraint_values(self.losses)
        self.violations = merit.violations(self.constraint_values)
        self.violation = sum(self.violations)
        self.value = merit.worst(self.order_values) + merit.price * self.violation
        self.noise = self._rounding * merit.magnitude(self.losses)
        if self._errors is not None:
            self.noise = max(self.noise, merit.magnitude(self._errors, 0.0))
        if self._is_metric_stale:
            self.applied = self.metric.apply(self.jacobian)
            self.gramian = self.applied @ self.jacobian.T
            self._is_metric_stale = False

    def take(self, jacobian: Array) -> None:
        """The gradients of the current point, (m, n)."""
        self.jacobian, self.norms = jacobian, norms_of(jacobian)
        self.largest = np.maximum(self.largest, self.norms)
        asked = self.norms if self._is_plain else norms_of(self.merit.asked @ jacobian)
        self.largest_order = np.maximum(self.largest_order, asked)
        if jacobian.shape[1] <= COLUMN_LIMIT:
            self.columns = np.maximum(self.columns, relative_columns(jacobian, self.norms))
        self._low, self._high = np.minimum(self._low, self.losses), np.maximum(self._high, self.losses)
        self._is_metric_stale = True

    def reset_metric(self, sizes: Array) -> None:
        """Start the metric afresh, with the squares of the parameters' sizes, (n,), as its diagonal."""
        self.metric.reset(sizes)
        self._is_metric_stale = True

    def seen(self) -> Seen:
        """The sizes that the run has met."""
        return Seen(self.first_losses, self.sizes(), self.largest_order, self.spans(), self.columns)

    def sizes(self) -> Array:
        """The size that each loss's gradient counts as having, (m,)."""
        return gradient_scale(self.norms, self.largest)

    def spans(self) -> Array:
        """How much each loss varies: its range so far, or what its gradient makes of a change nearby; (m,)."""
        return np.maximum(self._high - self._low, self.largest * self._reach)

    def constraint_scales(self) -> Array:
        """The size against which each constraint's violation is measured, in the merit's units, (k_c,)."""
        return self.merit.sizes.varying(still_counts(self.losses, self.first_losses), self.spans())

    def terms(self) -> Array:
        """The size of each constraint's terms, of those in x what they vary by, (k_c,)."""
        sizes = self.merit.sizes
        terms = sizes.terms(still_counts(self.losses, self.first_losses))
        return terms if sizes.in_x is None else np.where(sizes.in_x, self.constraint_scales(), terms)

    def is_blind(self) -> bool:
        """Without any curvature yet it may be on a plateau whose slope only longer steps can show."""
        return not self.metric.is_scaled and self.rejections < BLIND_STEPS and bool(self.norms.any())

    def place(self, outcome: Outcome) -> None:
        """Move to where another search ended."""
        self.point, self.losses = outcome.point, outcome.losses
        self.take(outcome.jacobian)

    def outcome(self) -> Outcome:
        """The end of the run."""
        counts = self.iterations, self.evaluations, self.iterations + 1
        with np.errstate(invalid="ignore"):  # losses of inf have no range
            return Outcome(self.status, self.point, self.losses, self.jacobian, self.seen(), *counts)


def _first_radius(point: Array, losses: Array, sizes: Array, box: Box | None) -> float:
    """The parameters' size, or less if a shorter step already brings every loss to its bound to first order."""
    size = norm(point)
    falls = (losses > 0) & (sizes > 0)
    to_bound = float((losses[falls] / sizes[falls]).max(initial=0.0))
    shortest = min(size or math.inf, to_bound or math.inf)
    radius = FIRST_SHARE * (shortest if math.isfinite(shortest) else 1.0)
    if box is not None and np.isfinite(widths := box.widths()).all():
        radius = min(radius, max(BOX_SHARE * norm(widths), 1e-300))
    return radius
