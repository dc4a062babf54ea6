"""Search for the fixed weights of two losses that come closest to each ray: what training reaches without steering.

Weights ``(w, 1 - w)`` are tried in rounds. After each round new ones are proposed between the two neighbours whose
angles enclose a ray (`enclosing`); how many, and where between them, is the caller's budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

__all__ = ["WeightTrial", "closest", "enclosing", "search_fixed_weights"]


class WeightTrial(Protocol):
    """A training with fixed weights."""

    @property
    def weight(self) -> float:
        """That of the first loss; the second has the rest of 1."""

    @property
    def angle(self) -> float:
        """Degrees of the losses reached to the first axis."""


Trial = TypeVar("Trial", bound=WeightTrial)


def search_fixed_weights(
    first: Sequence[float],
    train: Callable[[list[float]], Sequence[Trial]],
    propose: Callable[[list[Trial]], list[float]],
    rounds: int,
) -> list[Trial]:
    """Try weights in rounds.

    Args:
        first: weights of the first round.
        train: ``train(weights)``, one trial for each.
        propose: ``propose(trials)``, the weights of the next round from all trials so far, ordered by weight; the
            search ends where it proposes none.
        rounds: the most rounds, the first included.

    Returns:
        All trials, ordered by weight.
    """
    tried: dict[float, Trial] = {}
    weights = sorted(set(first))
    for number in range(rounds):
        tried |= {one.weight: one for one in train(weights)}
        weights = propose(_by_weight(tried)) if number + 1 < rounds else []
        if not weights:
            break
    return _by_weight(tried)


def enclosing(trials: Sequence[WeightTrial], ray: float) -> tuple[float, float, float] | None:
    """Between which weights a ray is expected.

    Args:
        trials: ordered by weight; those with a weight of 0 or 1 are left out.
        ray: in degrees.

    Returns:
        Two neighbouring weights whose angles enclose the ray, and where between them linear interpolation expects it
        (0 to 1); None where no two do.
    """
    inner = [one for one in trials if 0 < one.weight < 1]
    gaps = [
        (abs(a.angle - ray), abs(b.angle - ray), a.weight, b.weight)
        for a, b in pairwise(inner)
        if (a.angle - ray) * (b.angle - ray) <= 0
    ]
    if not gaps:
        return None
    before, after, low, high = min(gaps, key=lambda gap: gap[0] + gap[1])
    return low, high, before / (before + after) if before + after else 0.5


def closest(trials: Sequence[Trial], ray: float) -> Trial:
    """The trial whose losses come nearest to a ray, in degrees."""
    return min(trials, key=lambda one: abs(one.angle - ray))


def _by_weight(tried: dict[float, Trial]) -> list[Trial]:
    return sorted(tried.values(), key=lambda one: one.weight)
