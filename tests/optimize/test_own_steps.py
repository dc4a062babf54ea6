"""A method's own iteration: fixed steps and backtracking, and what a run says when the method has arrived."""

from itertools import pairwise

import pytest
import torch

import ferero
from ferero.errors import InputError, UnsupportedError

RAY = ferero.Preference.ray([1.0, 2.0])
START = torch.tensor([0.5, -0.3, 0.2], dtype=torch.float64)


def hills(x):
    return torch.stack([(x - 1).square().sum(), 2 * (x + 1).square().sum()])


def tangent(weights):
    """Where the weighted sum of the two hills is least: along the line between their tops."""
    a, b = weights[0], 2 * weights[1]
    return hills(torch.full((3,), float((a - b) / (a + b)), dtype=torch.float64))


@pytest.mark.parametrize("step", ["auto", 0.05])
def test_linear_scalarization_arrives_at_its_tangent_point_and_says_so(step):
    wanted = ferero.Preference.ray([1.0, 3.0])
    r = ferero.minimize(hills, START, wanted, method=ferero.LinearScalarization(), step=step, max_iter=2000)
    weights = torch.tensor([3 / 4, 1 / 4], dtype=torch.float64)
    torch.testing.assert_close(r.losses, tangent(weights), rtol=1e-6, atol=1e-8)
    assert r.status == "stalled"
    assert "it has arrived where it leads to" in r.message


def test_backtracking_makes_the_merit_fall_at_every_step():
    for method, preference in (
        (ferero.LinearScalarization(), RAY),
        (ferero.SmoothTchebycheff(mu=0.1), RAY),
        (ferero.MGDA(), ferero.Preference.pareto(2)),
        (ferero.MGDA(normalize="l2"), ferero.Preference.pareto(2)),
    ):
        r = ferero.minimize(hills, 5 * START, preference, method=method, max_iter=50)
        seen = torch.as_tensor(r.history.losses)
        changes = [float(method.change(preference, a, b)) for a, b in pairwise(seen)]
        assert len(changes) > 2
        assert all(change < 0 for change in changes)
        assert r.kkt.stationarity < 1e-3 or r.iterations == 50
        assert r.evaluations >= r.iterations + 1


def test_backtracking_does_not_depend_on_the_units_of_the_losses():
    runs = [
        ferero.minimize(lambda x, s=size: s * hills(x), START, RAY, method=ferero.LinearScalarization(), max_iter=40)
        for size in (1e-6, 1.0, 1e6)
    ]
    for r in runs:
        torch.testing.assert_close(r.x, runs[1].x, rtol=1e-6, atol=1e-8)


def test_a_method_without_a_merit_wants_a_step():
    with pytest.raises(UnsupportedError, match=r"EPO has no merit to globalise.*step=0.05"):
        ferero.minimize(hills, START, RAY, method=ferero.EPO())


@pytest.mark.parametrize("method", [ferero.Tchebycheff(), ferero.XWCMGDA(u=0.01)], ids=lambda m: type(m).__name__)
@pytest.mark.slow
def test_a_lower_bound_moves_the_start_of_a_ray(method):
    """Losses from -3 upwards on the ray from the origin; the method sees them from 0, and the ray from elsewhere."""
    r = ferero.minimize(lambda x: hills(x) - 3, START, RAY, method=method, step=0.003, max_iter=4000, lower=-3.0)
    assert float(ferero.ray_error(r.losses, RAY.ray)) < 1.0


def test_a_lower_bound_that_a_method_cannot_follow_is_refused():
    with pytest.raises(UnsupportedError, match=r"lower: about the losses above it .* EPO knows rays"):
        ferero.minimize(lambda x: hills(x) - 3, START, RAY, method=ferero.EPO(), step=0.01, lower=-3.0)
    wanted = ferero.Preference.ray([1.0, 2.0], through=[-3.0, -3.0])
    with pytest.raises(UnsupportedError, match="rays from the origin only"):
        ferero.minimize(lambda x: hills(x) - 3, START, wanted, method=ferero.EPO(), step=0.01)


def test_a_class_is_no_method():
    with pytest.raises(InputError, match=r"method: expected an instance, found the class; write EPO\(\)"):
        ferero.minimize(hills, START, RAY, method=ferero.EPO)
