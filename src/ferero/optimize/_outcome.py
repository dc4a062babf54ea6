"""What a run of the optimizer reports: its rounds, its outcome, and the sizes that it has seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ferero._arrays import Array, Mask

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


@dataclass(frozen=True)
class Round:
    """One round of all runs that were still going; arrays over those runs.

    Attributes:
        runs: their indices, (R,).
        accepted: which of them moved, (R,).
        losses: after the round, (R, m).
        weights: w, (R, m).
        violation: the largest relative violation before the step, (R,).
        stationarity: before the step, (R,).
        length: of the step tried, (R,).
        points: after the round, (R, n).
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
    """The end of one run: why it ended (in the words of the search, not of `Status`), where, and at what cost."""

    status: str
    point: Array
    losses: Array
    jacobian: Array
    seen: Seen
    iterations: int
    evaluations: int
    gradient_evaluations: int
