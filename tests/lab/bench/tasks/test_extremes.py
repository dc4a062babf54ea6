"""Situations out of the ordinary: how evaluations are judged, and one short run of each kind."""

from __future__ import annotations

import json
import pickle
from functools import partial

import pytest
import torch
from tests.lab.bench.tasks.made_up import tiny

from ferero_lab.bench.tasks import extremes
from ferero_lab.bench.tasks.extremes import (
    EXTREMES,
    Extreme,
    ExtremeRun,
    _degrees,
    _steps_until_back,
    _steps_until_said,
)
from ferero_lab.bench.tasks.fronts import far_ray


def run_of(total: int, losses: list[tuple[float, float]], statuses: list[str] | None = None) -> ExtremeRun:
    steps = list(range(25, 25 * len(losses) + 1, 25))
    values = [torch.tensor(one, dtype=torch.float64) for one in losses]
    return ExtremeRun(total, steps, values, statuses or [""] * len(steps))


def test_back_means_for_good_and_on_average() -> None:
    task = tiny(300)  # the outlier is step 101
    far, near, there = (1.0, 0.0), (0.52, 0.0), (0.5, 0.0)
    assert _steps_until_back(task, run_of(300, [far] * 4 + [there] * 8)) == 125 - 101
    assert _steps_until_back(task, run_of(300, [there] * 5 + [far] + [there] * 6)) == 175 - 101
    assert _steps_until_back(task, run_of(300, [there] * 4 + [near] * 8)) is None  # 4 % over on average
    assert _steps_until_back(task, run_of(300, [there] * 11 + [far])) is None


def test_said_means_until_the_end() -> None:
    words = ["not_met", "saturated", "not_met", "saturated", "saturated"]
    assert _steps_until_said(tiny(125), run_of(125, [(1.0, 1.0)] * 5, words)) == 100
    assert _steps_until_said(tiny(125), run_of(125, [(1.0, 1.0)] * 5, [*words[:3], *words[1:3]])) is None


def test_degrees_are_the_worst_of_the_last_tenth() -> None:
    task = far_ray(45.0, 0.1)
    assert _degrees(task, run_of(500, [(1.0, 0.0)] * 18 + [(1.0, 1.0), (1.0, 1.0)])) == pytest.approx(0.0, abs=1e-6)
    assert _degrees(task, run_of(500, [(1.0, 1.0)] * 19 + [(1.0, 0.0)])) == pytest.approx(45.0)


def test_a_run_that_stops_or_blows_up_is_not_complete() -> None:
    assert run_of(100, [(1.0, 1.0)] * 4).is_complete
    assert not run_of(200, [(1.0, 1.0)] * 4).is_complete
    assert not run_of(100, [(1.0, 1.0)] * 3 + [(float("inf"), 1.0)]).is_complete
    assert not run_of(100, []).is_complete


@pytest.mark.parametrize("kind", ["outlier", "unattainable"])
def test_a_short_run_of_each_kind(kind: extremes.Kind) -> None:
    found = extremes.measure(Extreme(kind, partial(tiny, 150), 1e12))
    json.dumps(found, allow_nan=False)
    assert found["extreme"] == kind
    assert found["ours"]["finite"]
    assert found["ours"]["status"]
    assert found["theirs"]["status"] == ""


def test_all_of_them_travel_to_other_processes_and_have_names_of_their_own() -> None:
    tasks = [pickle.loads(pickle.dumps(one)).task() for one in EXTREMES]
    assert len({(task.name, task.form) for task in tasks}) == len(EXTREMES)
