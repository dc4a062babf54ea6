"""`trace` is a loop of `minimize`, only faster: the same points, whatever the function allows."""

import numpy as np
import pytest
import torch

from ferero.errors import InputError, UnsupportedError
from ferero.fronts import Front, trace
from ferero.methods import Ferero
from ferero.optimize import minimize
from ferero.preference import Preference, objectives, spread

n = 6
centre = torch.full((n,), n**-0.5, dtype=torch.float64)
start = torch.linspace(-0.3, 0.25, n, dtype=torch.float64)
rays = spread(2, 5)
f = objectives("a", "b")


def bells(x):
    return torch.stack([1 - torch.exp(-(x - centre).square().sum()), 1 - torch.exp(-(x + centre).square().sum())])


def assert_same_points(front, results):
    for found, expected in zip(front, results, strict=True):
        assert found.status == expected.status == "converged"
        assert np.abs(np.asarray(found.x) - np.asarray(expected.x)).max() < 1e-5
        assert np.abs(np.asarray(found.losses) - np.asarray(expected.losses)).max() < 1e-5


def test_equals_a_loop_of_minimize():
    front = trace(bells, start, rays)
    assert isinstance(front, Front)
    assert_same_points(front, [minimize(bells, start, Preference.ray(ray)) for ray in rays])
    assert front.ray_errors().max() < 1e-3
    assert isinstance(front[0].x, torch.Tensor)


def test_one_start_for_each_preference():
    starts = 0.3 * torch.randn(5, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    before = starts.clone()
    front = trace(bells, starts, rays)
    expected = [minimize(bells, x, Preference.ray(ray)) for x, ray in zip(starts, rays, strict=True)]
    assert_same_points(front, expected)
    assert torch.equal(starts, before)
    for result, x in zip(front, starts, strict=True):
        assert result.history.losses[0] == pytest.approx(bells(x).numpy())


def test_mixed_preferences_and_stacks():
    wanted = [Preference(f, [f.a <= 0.4]), Preference(f, [f.a == 2 * f.b]), Preference.ray([1, 2], names=f)]
    front = trace(bells, start, wanted)
    assert_same_points(front, [minimize(bells, start, p) for p in wanted])
    assert front.names == ("a", "b")
    stacked = trace(bells, start, Preference.stack(wanted))
    assert torch.equal(stacked.losses, front.losses)
    assert torch.equal(trace(bells, start, (p for p in wanted)).losses, front.losses)


def test_kinds_of_rays_agree():
    expected = trace(bells, start, rays).losses
    for given in (rays.numpy(), rays.tolist(), list(rays), [Preference.ray(ray) for ray in rays]):
        assert (trace(bells, start, given).losses - expected).abs().max() < 1e-12


def test_falls_back_to_a_loop_where_vmap_refuses():
    calls = 0

    def stubborn(x):
        nonlocal calls
        calls += 1
        return bells(x) * (1.0 if x.sum().item() > -1e9 else 2.0)

    front = trace(stubborn, start, rays)
    assert_same_points(front, trace(bells, start, rays))
    assert calls >= sum(r.evaluations for r in front)


def test_numpy_functions():
    c = centre.numpy()

    def numpy_bells(x):
        assert isinstance(x, np.ndarray)
        return np.array([1 - np.exp(-((x - c) ** 2).sum()), 1 - np.exp(-((x + c) ** 2).sum())])

    front = trace(numpy_bells, start.numpy(), spread(2, 4).numpy())
    assert_same_points(front, trace(bells, start, spread(2, 4)))
    assert isinstance(front[0].x, np.ndarray)
    assert front.losses.dtype == torch.float64


@pytest.mark.parametrize("x0", [start, start[None]], ids=["(n,)", "(1, n)"])
def test_one_preference(x0):
    wanted = Preference.ray([1, 1])
    for given in ([wanted], wanted, Preference.stack([wanted]), [[1.0, 1.0]]):
        front = trace(bells, x0, given)
        assert len(front) == 1
        assert front[0].x.shape == (n,)
        assert_same_points(front, [minimize(bells, start, wanted)])


def test_parameters_of_any_shape():
    def matrix_bells(x):
        return bells(x.reshape(-1))

    front = trace(matrix_bells, start.reshape(2, 3).expand(5, 2, 3), rays)
    assert front[0].x.shape == (2, 3)
    assert (front.losses - trace(bells, start, rays).losses).abs().max() < 1e-5


def test_options_are_passed_on():
    front = trace(bells, start, rays, max_iter=1, method=Ferero(), tol=1e-9, lower=[0, 0])
    assert {r.iterations for r in front} == {1}
    assert set(front.statuses) == {"max_iter"}


def test_a_fixed_step():
    front = trace(bells, start, rays, step=0.05, max_iter=3)
    expected = [minimize(bells, start, Preference.ray(ray), step=0.05, max_iter=3).losses for ray in rays]
    assert (front.losses - torch.stack(expected)).abs().max() < 1e-9


class TestErrors:
    @pytest.mark.parametrize("nothing", [[], (), np.zeros((0, 2)), torch.zeros(0, 2)])
    def test_no_preferences(self, nothing):
        with pytest.raises(InputError, match="preferences: expected at least one, found none"):
            trace(bells, start, nothing)

    def test_shapes(self):
        with pytest.raises(InputError, match=r"preferences: .*rays of shape \(P, m\), found shape \(2,\)"):
            trace(bells, start, [1.0, 2.0])
        with pytest.raises(InputError, match=r"x0: .*each of the 5 preferences, shape \(5, n\), found \(4, 6\)"):
            trace(bells, start.expand(4, n), rays)
        with pytest.raises(InputError, match=r"x0: .*shape \(1, n\), found \(2, 6\)"):
            trace(bells, start.expand(2, n), [[1.0, 1.0]])

    def test_widths_that_are_not_the_functions(self):
        with pytest.raises(InputError, match=r"expected 3 losses.*found 2"):
            trace(bells, start, np.ones((4, 3)))

    def test_names_that_differ(self):
        with pytest.raises(InputError, match=r"preferences\[1\]: expected the names of the first"):
            trace(bells, start, [Preference.ray([1, 2]), Preference.ray([1, 2], names=f)])
        with pytest.raises(InputError, match=r"preferences\[1\]: expected the names of the first"):
            trace(bells, start, [Preference.ray([1, 2]), Preference.ray([1, 2, 3])])

    def test_other_things(self):
        with pytest.raises(InputError, match=r"preferences\[1\]: expected a Preference, found list"):
            trace(bells, start, [Preference.ray([1, 2]), [1, 2]])
        with pytest.raises(InputError, match=r"preferences\[1\]: vector: expected a direction, found all zeros"):
            trace(bells, start, [[1, 2], [0, 0]])
        with pytest.raises(InputError, match="preferences: expected an array of real numbers"):
            trace(bells, start, "f1 <= 2")

    def test_a_method_without_a_merit(self):
        from ferero.methods import FereroSA

        with pytest.raises(UnsupportedError, match="step"):
            trace(bells, start, rays, method=FereroSA())
