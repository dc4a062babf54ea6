"""The certificate: zero exactly at first-order points, the same in any units, and not fooled by held objectives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.optimize.exponential import CENTRE, exponential, quadratics
from torch import Tensor

from ferero.optimize import certify, minimize
from ferero.preference import Preference, objectives


@pytest.mark.parametrize("along", [-0.7, -0.2, 0.0, 0.5])
def test_points_of_the_front_pass_for_their_own_ray(along: float) -> None:
    x = along * CENTRE
    kkt = certify(exponential, x, Preference.ray(exponential(x)))
    assert kkt.worst < 1e-9


def test_points_off_the_front_fail_stationarity_and_off_the_ray_feasibility() -> None:
    x = 0.3 * CENTRE
    off = x.clone()
    off[0] += 0.2
    off[1] -= 0.2
    assert certify(exponential, off, Preference.ray(exponential(off))).stationarity > 1e-2
    assert certify(exponential, x, Preference.ray([1.0, 1.0])).feasibility > 1e-2


def test_stationarity_is_the_norm_of_the_weighted_gradients() -> None:
    x = torch.linspace(-1, 1, 5, dtype=torch.float64).requires_grad_()
    losses = quadratics(x)
    gradients = torch.stack([torch.autograd.grad(loss, x, retain_graph=True)[0] for loss in losses])
    kkt = certify(quadratics, x.detach(), Preference.pareto(3), x0=x.detach())
    expected = torch.linalg.norm(torch.from_numpy(kkt.weights) @ gradients) / gradients.norm(dim=1).max()
    assert kkt.stationarity == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("factor", [2.0, 1e6])
def test_units_of_a_loss_do_not_matter(factor: float) -> None:
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)
    scale = torch.tensor([1.0, factor, 1.0], dtype=torch.float64)
    ray = torch.tensor([1.0, 2.0, 1.5], dtype=torch.float64)
    plain = certify(quadratics, x, Preference.ray(ray), x0=x)
    scaled = certify(lambda z: scale * quadratics(z), x, Preference.ray(scale * ray), x0=x)
    assert scaled.feasibility == pytest.approx(plain.feasibility, rel=0.75)
    assert (scaled.stationarity < 1e-6) == (plain.stationarity < 1e-6)


def test_an_inactive_inequality_gets_no_multiplier() -> None:
    f = objectives("a", "b", "c")
    centre = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    kkt = certify(quadratics, centre / 3 + 0.3, Preference(f, [f.a <= 100.0]))
    assert kkt.multipliers[3] * 98 < 1e-6
    assert kkt.complementarity < 1e-6


def test_a_violated_inequality_counts_as_feasibility_alone() -> None:
    def fun(x: Tensor) -> Tensor:
        return torch.stack([x.square().sum(), (x - 1).square().sum()])

    f = objectives("a", "b")
    x, x0 = (torch.tensor([value], dtype=torch.float64) for value in (0.28, 9.0))
    kkt = certify(fun, x, Preference(f, [f.b <= 0.5], minimize=f.a), x0=x0)
    assert kkt.feasibility == pytest.approx((0.72**2 - 0.5) / (0.72**2 + 0.5))
    assert kkt.stationarity < 1e-9  # the two gradients are opposite
    assert kkt.complementarity == 0


def test_an_objective_that_is_held_proves_nothing() -> None:
    """With c == value every feasible point is weakly optimal; the others must be stationary by themselves."""
    f = objectives("a", "b", "c")
    x = torch.tensor([0.9, -0.5, 0.2, 0.4, 0.0], dtype=torch.float64)
    value = float(quadratics(x)[2])
    kkt = certify(quadratics, x, Preference(f, [f.c == value]))
    assert kkt.feasibility < 1e-12
    assert kkt.stationarity > 1e-2


def test_one_objective_at_its_minimum_passes_without_a_start() -> None:
    kkt = certify(lambda x: (x - 1).square().sum()[None] + 1, torch.ones(3, dtype=torch.float64), Preference.pareto(1))
    assert kkt.worst < 1e-12


def test_numpy_functions_are_certified_by_central_differences() -> None:
    kkt = certify(
        lambda x: np.array([((x - 1) ** 2).sum(), ((x + 1) ** 2).sum()]),
        np.zeros(3),
        Preference.ray([1.0, 1.0]),
    )
    assert kkt.worst < 1e-6


@pytest.mark.parametrize("factor", [1e-8, 1.0, 1e6])
def test_a_slack_constraint_certifies_nothing_in_any_units(factor: float) -> None:
    """The bound has a quarter of its size to spare and the point is not stationary."""
    f = objectives("a", "b")

    def fun(x: torch.Tensor) -> torch.Tensor:
        return factor * torch.stack([(x[0] - 1) ** 2 + x[1] ** 2 + 0.1, (x[0] + 1) ** 2 + x[1] ** 2 + 0.1])

    p = Preference(f, [f.b <= 2 * factor], minimize=f.a)
    assert certify(fun, torch.tensor([0.2, 0.0], dtype=torch.float64), p).worst > 0.1


def test_two_held_objectives_leave_the_third_to_be_minimised() -> None:
    f = objectives("a", "b", "c")
    p = Preference(f, [f.c == 0.9, f.a == 0.9])
    for seed in range(10):
        x0 = torch.from_numpy(np.random.default_rng(seed).standard_normal(5))
        found = minimize(quadratics, x0, p)
        assert found.success
        assert float(found.losses[1]) == pytest.approx(float(minimize(quadratics, -x0, p).losses[1]), abs=1e-4)


def _difference(common: float) -> Callable[[Tensor], Tensor]:
    """a - b = |x - 3|^2, with a common part of any size."""

    def fun(x: Tensor) -> Tensor:
        shared = common * (x.sum() + 10).square()
        return torch.stack([shared + (x - 3).square().sum(), shared])

    return fun


@pytest.mark.parametrize("common", [0.0, 1.0, 1e4, 1e6])
def test_a_difference_is_measured_by_itself_whatever_its_losses_have_in_common(common: float) -> None:
    f = objectives("a", "b")
    wanted = Preference(f, minimize=f.a - f.b)
    start = torch.tensor([0.3, 0.4], dtype=torch.float64)
    assert certify(_difference(common), start, wanted).stationarity > 0.1
    found = minimize(_difference(common), start, wanted)
    assert found.status == "converged"
    assert torch.allclose(found.x, torch.tensor(3.0).double(), atol=1e-4)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9, 1e12])
def test_what_is_minimised_is_not_measured_by_a_loss_that_only_has_a_bound(unit: float) -> None:
    f = objectives("error", "bytes")

    def fun(x: Tensor) -> Tensor:
        rosenbrock = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        return torch.stack([rosenbrock + 1, unit * (100 + x.square().sum())])

    wanted, start = Preference(f, [f.bytes <= 1e6 * unit], minimize=f.error), torch.tensor([3.0, -2.0]).double()
    assert certify(fun, start, wanted).stationarity > 0.1
    assert minimize(fun, start, wanted, max_iter=8).status == "max_iter"
    assert float(minimize(fun, start, wanted).losses[0]) == pytest.approx(1.0, abs=1e-6)
