"""The arithmetic of the summary, on lines made by hand."""

from __future__ import annotations

import json
from math import inf

import pytest
from tests.lab.bench.tasks.made_up import line, rivals

from ferero_lab.bench.tasks.cell import score_of
from ferero_lab.bench.tasks.registry import FAMILIES, HALVES, family_of
from ferero_lab.bench.tasks.rivals import RIVALS
from ferero_lab.bench.tasks.summary import figures, reached_by_rivals, summarise, summarise_variants

# the first setting is quick and poor, the second slow and best
TWO = rivals({0: [0.0, 0.0, 2.0, 100.0], 1: [0.01, 0.05, 1.0, 400.0]}, alone=(0.5, 4.5))


def test_regret_is_relative_to_the_best_objective_or_to_its_spread() -> None:
    (reached,) = reached_by_rivals([line(rivals=TWO)]).values()
    assert (reached.best, reached.size) == (1.0, 4.0)
    assert reached.regret(score_of([0.0, 0.0, 3.0, 10.0])) == pytest.approx(0.5)
    assert reached.regret(score_of([0.0, 0.0, 0.6, 10.0])) == pytest.approx(-0.1)
    (narrow,) = reached_by_rivals([line(rivals=rivals({1: [0.0, 0.0, -8.0, 400.0]}, alone=(1.0, 2.0)))]).values()
    assert narrow.size == 8
    diverged = rivals({0: [0.0, 0.0, 2.0, 50.0]})
    diverged[-1] = [None, None, None, None]
    (alone,) = reached_by_rivals([line(rivals=diverged)]).values()
    assert alone.size == 2


def test_only_a_rival_of_fair_regret_is_quick() -> None:
    (reached,) = reached_by_rivals([line(rivals=TWO)]).values()
    assert reached.regret(reached.scores[0]) == 0.25
    assert reached.quickest == 400


def test_regret_where_there_is_nothing_to_be_relative_to() -> None:
    (reached,) = reached_by_rivals([line(rivals=rivals({0: [0.0, 0.0, 0.0, 50.0]}))]).values()
    assert reached.regret(score_of([0.0, 0.0, 0.0, 1.0])) == 0
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert reached.regret(score_of([0.0, 0.0, 1.0, 1.0])) == inf


def test_the_bars_of_a_met_cell_are_included() -> None:
    assert score_of([0.01, 0.05, 1.0, 10.0]).is_met
    assert not score_of([0.0101, 0.05, 1.0, 10.0]).is_met
    assert not score_of([0.0, 0.0501, 1.0, 10.0]).is_met
    assert not score_of([None, None, None, None]).is_met


def test_ferero_beside_all_settings() -> None:
    theirs = [
        line(rivals=TWO),
        line(form="momentum", rivals=TWO),
        line(task="poisson 1", rivals=rivals({})),
        line(task="ray 45", rivals=TWO),
    ]
    ours = [
        line(ferero=[0.0, 0.0, 1.4, 200.0], status="met"),
        line(form="momentum", ferero=[0.2, 0.2, 0.1, None], status="saturated"),
        line(task="poisson 1", ferero=[0.0, 0.0, 1.0, 10.0], status="saturated"),
        line(task="unknown", ferero=[0.0, 0.0, 1.0, 10.0], status="met"),
    ]
    tuned_on = [line(half="tune", rivals=rivals({0: [0.0, 0.0, 1.0, 10.0]}))]
    found = summarise(theirs, ours, tuned_on)
    json.dumps(found, allow_nan=False)
    assert (found["cells"], found["attainable"], found["beyond"]) == (3, 2, 1)
    assert found["ferero"] == {
        "cells": 2, "met": 1, "share": 0.5, "regret": 0.1, "regret_90": 0.1, "speed": 0.5, "saturated": 1,
    }  # fmt: skip
    assert len(found["settings"]) == len(RIVALS)
    assert [one["share"] for one in found["settings"][:3]] == [1.0, 1.0, 0.0]
    assert found["best"]["setting"] == RIVALS[1].setting  # as often as the first, at a lower regret
    assert found["best"]["chosen"]["setting"] == RIVALS[0].setting
    assert found["best"]["chosen"]["regret"] == 0.25
    assert [one["rule"] for one in found["rules"]] == list(dict.fromkeys(rival.name for rival in RIVALS))
    assert {one["name"]: (one["cells"], one["met"], one["best_met"]) for one in found["families"]} == {
        "vae": (2, 1, 2),
        "pinn": (0, 0, 0),
    }
    assert {one["name"]: one["met"] for one in found["forms"]} == {"as it is": 1, "momentum": 0}
    (missed,) = found["missed"]
    assert (missed["form"], missed["status"], missed["rivals_that_meet"]) == ("momentum", "saturated", 2)


def test_quantiles_are_over_met_cells() -> None:
    lines = [line(seed=seed, rivals=TWO) for seed in range(11)]
    scores = {("report", "vae 4", "as it is", seed): score_of([0.0, 0.0, 1 + 0.4 * seed, 400.0]) for seed in range(11)}
    found = figures(scores, reached_by_rivals(lines))
    assert (found["regret"], found["regret_90"], found["speed"]) == (0.5, 0.9, 1.0)


def test_nothing_measured_is_no_figure() -> None:
    found = summarise([], [], [])
    assert found["ferero"]["share"] is None
    assert found["best"] == {"chosen": None}
    assert found["missed"] == []


def test_variants_in_the_order_of_the_lines() -> None:
    lines = [line(variants={"usual": [0.0, 0.0, 1.4, 800.0], "other": [0.5, 0.5, 1.0, None]})]
    usual, other = summarise_variants([line(rivals=TWO)], lines)
    assert (usual["title"], usual["share"], usual["regret"], usual["speed"]) == ("usual", 1.0, 0.1, 2.0)
    assert (other["title"], other["share"], other["regret"]) == ("other", 0.0, None)
    assert summarise_variants([line(rivals=TWO)], []) == []


def test_every_task_has_a_family() -> None:
    names = {make().name for half in HALVES.values() for make in half}
    assert {family_of(name) for name in names} == set(FAMILIES)
