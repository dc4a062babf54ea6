"""What a run of the optimizer reports: its rounds, its outcome, and the sizes that it has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ferero._arrays import Array

__all__ = ["Outcome", "Round", "Seen"]


@dataclass(frozen=True)
class Seen:
    """Sizes met along a run, against which losses and gradients that vanish at its end are measured.

    Attributes:
        losses: F at the start, (m,).
        gradients: the norm that each loss's gradient counts as having, (m,); see `gradient_scale`.
        order: the largest norm of the gradient of each row of the preference's order, (k,).
        spans: how much each loss varied, or would nearby, (m,).
        columns: the largest share of a loss's gradient that each parameter had, (n,).
    """

    losses: Array
    gradients: Array
    order: Array
    spans: Array
    columns: Array


class Round(NamedTuple):
    """One step that a run tried.

    Attributes:
        run: its index.
        accepted: whether it moved.
        losses: after the round, (m,).
        weights: w, (m,).
        violation: the largest relative violation before the step.
        stationarity: before the step.
        length: of the step tried.
        point: after the round, (n,).
    """

    run: int
    accepted: bool
    losses: Array
    weights: Array
    violation: float
    stationarity: float
    length: float
    point: Array


@dataclass(frozen=True)
class Outcome:
    """The end of one run: why it ended (in the words of the search, not of `Status`), where, and at what cost."""

    status: str
    point: Array
    losses: Array
    jacobian: Array
    seen: Seen
    iterations: int
    evaluations: int
    gradient_evaluations: int
