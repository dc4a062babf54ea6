"""A front reports what its results say, and survives those that failed."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from ferero.errors import InputError
from ferero.fronts import Front, hypervolume, trace
from ferero.geometry import Cone
from ferero.optimize import minimize
from ferero.preference import Preference, objectives, spread

f = objectives("time", "cost")
x0 = torch.tensor([0.3, -0.2], dtype=torch.float64)


def parabolas(x):
    return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])


wanted = [
    Preference.ray([1, 2], names=f),
    Preference(f, [f.time <= 1]),
    Preference.pareto(2, names=f),
    Preference.ray([1, 1], through=[0, 0.5], names=f),
]


@pytest.fixture(scope="module")
def front():
    return trace(parabolas, x0, wanted)


def with_losses(front, losses):
    return Front(torch.tensor(losses, dtype=torch.float64), front.preferences, front.results)


def test_sequence(front):
    assert len(front) == len(list(front)) == 4
    assert front[1] is front.results[1]
    assert front[-1].preference is front.preferences[3]
    part = front[1:3]
    assert isinstance(part, Front)
    assert torch.equal(part.losses, front.losses[1:3])
    assert part.preferences == front.preferences[1:3]


def test_fields(front):
    assert front.names == ("time", "cost")
    assert front.losses.shape == (4, 2)
    assert front.losses.dtype == torch.float64
    assert front.statuses == ("converged",) * 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        front.losses = front.losses


def test_losses_are_a_copy():
    losses = torch.ones(1, 2, dtype=torch.float64)
    result = minimize(parabolas, x0, wanted[0])
    front = Front(losses, (wanted[0],), (result,))
    losses.zero_()
    assert front.losses.tolist() == [[1, 1]]


def test_ray_errors_are_nan_where_there_is_no_line(front):
    errors = front.ray_errors()
    assert errors.isnan().tolist() == [False, True, True, False]
    assert errors[[0, 3]].max() < 1e-3
    assert with_losses(front, [[2, 1], [1, 1], [1, 1], [0, 1.5]]).ray_errors()[[0, 3]].tolist() == pytest.approx(
        [math.degrees(math.atan(2) - math.atan(0.5)), 45]
    )


def test_a_line_runs_both_ways_and_a_ray_does_not(front):
    line, ray = Preference.between([1, 1], [2, 2]), Preference.ray([1, 1], through=[1, 1])
    both = Front(torch.tensor([[0.5, 0.5], [0.5, 0.5]]), (line, ray), front.results[:2])
    assert both.ray_errors().tolist() == [0, 180]
    assert both.violations()[0] < 1e-15
    assert both.violations()[1] == pytest.approx(math.sqrt(0.5))


def test_violations(front):
    found = with_losses(front, [[1, 1], [1.25, 0], [9, 9], [0, 0.5]]).violations()
    assert found.tolist() == pytest.approx([3 / math.sqrt(5) - 2 / math.sqrt(5), 0.25, 0, 0])
    assert front.violations().max() < 1e-5


def test_nondominated_and_hypervolume(front):
    points = with_losses(front, [[1, 3], [2, 2], [3, 2.5], [4, 1]])
    assert points.nondominated().tolist() == [True, True, False, True]
    assert points.nondominated(Cone([[1.0, 1.0]])).tolist() == [True, True, False, False]
    assert points.hypervolume([5, 5]) == hypervolume(points.losses, [5, 5])


def test_points_that_are_not_finite(front):
    broken = with_losses(front, [[1, 3], [math.nan, 2], [math.inf, 2], [4, 1]])
    assert broken.nondominated().tolist() == [True, False, False, True]
    assert broken.hypervolume([5, 5]) == hypervolume([[1, 3], [4, 1]], [5, 5])
    assert "nan" in str(broken)
    assert broken.to_dict()["losses"][1] == [None, 2]


def test_to_dict_is_json(front):
    given = front.to_dict()
    text = json.dumps(given, allow_nan=False)
    assert json.loads(text) == given
    assert given["names"] == ["time", "cost"]
    assert np.allclose(given["losses"], front.losses)
    assert np.allclose(given["weights"], np.stack([r.weights for r in front]))
    assert given["preferences"] == [str(p) for p in wanted]
    assert given["rays"][1:3] == [None, None]
    assert given["rays"][0] == pytest.approx([1 / math.sqrt(5), 2 / math.sqrt(5)])
    assert given["through"] == [None, None, None, [0, 0.5]]
    assert given["statuses"] == ["converged"] * 4
    assert given["evaluations"] == [r.evaluations for r in front]
    assert given["ray_errors"][1] is None
    assert set(given["kkt"]) == {"stationarity", "complementarity", "feasibility"}
    assert given["kkt"]["feasibility"] == [r.kkt.feasibility for r in front]
    assert {len(given[key]) for key in given if key not in {"names", "kkt"}} == {4}


def test_text(front):
    assert repr(front) == "Front(4 points in time, cost: 4 converged)"
    assert repr(front[:1]) == "Front(1 point in time, cost: 1 converged)"
    lines = str(front).splitlines()
    assert len(lines) == 2 + len(front)
    assert lines[0].split() == [
        "preference",
        "time",
        "cost",
        "status",
        "ray",
        "error",
        "violation",
        "evaluations",
    ]
    assert set(lines[1]) == {"-", " "}
    assert lines[3].startswith("time <= 1 ")
    assert lines[3].split()[-1] == str(front[1].evaluations)
    assert len({len(line) for line in lines}) == 1  # the last column is right-aligned
    assert not any(line.endswith(" ") for line in lines)
    rays_only = str(trace(parabolas, x0, spread(2, 2))).splitlines()[0]
    assert "ray error" in rays_only
    assert "violation" not in rays_only
    assert "ray error" not in str(front[1:2]).splitlines()[0]


def test_long_preferences_are_shortened(front):
    many = Preference(f, [f.time <= 1 + i / 7 for i in range(9)])
    one = Front(front.losses[:1], (many,), front.results[:1])
    row = str(one).splitlines()[2]
    assert "time <= 1; time <= 1.14" in row
    assert "..." in row


def test_errors(front):
    with pytest.raises(InputError, match="results: expected at least one, found none"):
        Front.from_results([])
    with pytest.raises(InputError, match=r"losses, results: expected shape \(4, 2\) and 4 .*found \(3, 2\) and 4"):
        Front(front.losses[:3], front.preferences, front.results)
    with pytest.raises(InputError, match=r"found \(4, 2\) and 3"):
        Front(front.losses, front.preferences, front.results[:3])
    with pytest.raises(InputError, match=r"preferences\[1\]: expected the names"):
        Front(front.losses[:2], (wanted[0], Preference.ray([1, 2])), front.results[:2])
