"""A front of trained models tells what training knows, and nothing that only `minimize` does."""

import json
import math

import pytest
import torch

from ferero.errors import InputError, UnsupportedError
from ferero.fronts import Front
from ferero.fronts._trained import Course, Trained
from ferero.optimize import minimize
from ferero.preference import Preference, objectives

f = objectives("time", "cost")
ray = Preference.ray([1, 2], names=f)
bound = Preference(f, [f.time <= 1])


def trained(preference=ray, losses=(1.0, 2.0), **rest):
    return Trained(preference, torch.tensor(losses, dtype=torch.float64), **rest)


@pytest.fixture
def front():
    course = Course(torch.tensor([0, 5]), torch.tensor([[4.0, 4.0], [1.0, 2.0]]), torch.full((2, 2), 0.5))
    return Front.from_results(
        [
            trained(status="met", seed=0, steps=5, seconds=1.5, course=course, weights=torch.tensor([0.4, 0.6])),
            trained(losses=(1.0, 2.5), status="not_met", seed=1, steps=5, message="Train on."),
            trained(bound, (0.5, 4.0), evaluated={"test": {"time": 0.75, "cost": math.nan}}, steps=7),
        ]
    )


def test_fields(front):
    assert front.names == ("time", "cost")
    assert front.losses.tolist() == [[1, 2], [1, 2.5], [0.5, 4]]
    assert front.statuses == ("met", "not_met", "trained")
    assert [p.ray is None for p in front.preferences] == [False, False, True]
    assert front[1].message == "Train on."
    assert repr(front) == "Front(3 points in time, cost: 1 met, 1 not_met, 1 trained)"
    assert front[1:].statuses == ("not_met", "trained")


def test_to_dict_has_what_training_knows_and_no_more(front):
    given = front.to_dict()
    assert json.loads(json.dumps(given, allow_nan=False)) == given
    assert not {"iterations", "evaluations", "gradient_evaluations", "kkt"} & set(given)
    assert given["seeds"] == [0, 1, 0]
    assert given["steps"] == [5, 5, 7]
    assert given["seconds"] == [1.5, 0, 0]
    assert given["evaluated"] == [{}, {}, {"test": {"time": 0.75, "cost": None}}]
    assert given["weights"][0] == pytest.approx([0.4, 0.6])
    assert given["weights"][1:] == [None, None]
    assert given["messages"] == ["", "Train on.", ""]


def test_table(front):
    header, _, first, second, third = str(front).splitlines()
    assert header.split() == ["preference", "seed", "time", "cost", "status", "ray", "error", "violation", "steps"]
    assert first.split()[-1] == "5"
    assert second.split()[4:8] == ["1", "1", "2.5", "not_met"]
    assert third.split()[:4] == ["time", "<=", "1", "0"]
    assert str(front[:1]).splitlines()[0].split() == [
        "preference",
        "time",
        "cost",
        "status",
        "ray",
        "error",
        "steps",
    ]


def test_steps_that_nobody_counted_are_no_column():
    assert "steps" not in str(Front.from_results([trained()]))


def test_state_dicts():
    kept = [trained(state_dict={"a": torch.ones(1)}), trained(state_dict={"a": torch.zeros(1)}, seed=1)]
    assert [s["a"].item() for s in Front.from_results(kept).state_dicts] == [1, 0]
    with pytest.raises(UnsupportedError, match=r"state_dicts: .*not results 2, 3 did; keep them when training"):
        _ = Front.from_results([*kept, trained(), trained()]).state_dicts
    result = minimize(lambda x: torch.stack([(x - 1).square().sum(), (x + 1).square().sum()]), torch.zeros(1), ray)
    with pytest.raises(UnsupportedError, match="found that no result did"):
        _ = Front.from_results([result]).state_dicts
    with pytest.raises(InputError, match="expected all of one kind, found Result and Trained; make a front of each"):
        Front.from_results([result, trained()])


def test_losses_of_any_dtype_are_read_without_their_graph():
    loss = torch.tensor([1.0, 2.0], requires_grad=True)
    front = Front.from_results([Trained(ray, loss)])
    assert front.losses.dtype == torch.float64
    assert not front.losses.requires_grad
