"""The search for fixed weights: between which weights a ray is expected, and when the rounds end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ferero_lab.fixed_weights import closest, enclosing, search_fixed_weights


@dataclass(frozen=True)
class Line:
    """Angles fall from 90 to 0 degrees as the weight grows."""

    weight: float

    @property
    def angle(self) -> float:
        return 90 * (1 - self.weight) ** 2


def test_a_ray_is_expected_where_interpolation_puts_it() -> None:
    trials = [Line(w) for w in (0.0, 0.2, 0.5, 0.8, 1.0)]
    low, high, share = enclosing(trials, 40.0) or (0.0, 0.0, 0.0)
    assert (low, high) == (0.2, 0.5)
    assert share == pytest.approx((trials[1].angle - 40) / (trials[1].angle - trials[2].angle))
    assert enclosing(trials, 80.0) is None  # weights of 0 and 1 enclose nothing
    assert enclosing([Line(0.5), Line(0.5)], Line(0.5).angle) == (0.5, 0.5, 0.5)


def test_rounds_come_nearer_and_end_without_proposals() -> None:
    asked: list[list[float]] = []

    def train(weights: list[float]) -> list[Line]:
        asked.append(weights)
        return [Line(w) for w in weights]

    def propose(trials: list[Line]) -> list[float]:
        place = enclosing(trials, 40.0)
        return [] if place is None else [place[0] + place[2] * (place[1] - place[0])]

    found = search_fixed_weights([0.8, 0.2, 0.2], train, propose, 4)
    assert [len(weights) for weights in asked] == [2, 1, 1, 1]
    assert [one.weight for one in found] == sorted(one.weight for one in found)
    assert abs(closest(found, 40.0).angle - 40) < 0.1 < abs(closest(found[:1], 40.0).angle - 40)
    search_fixed_weights([0.2, 0.8], train, lambda trials: [], 4)
    assert len(asked) == 5
