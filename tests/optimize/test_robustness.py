"""What a first reviewer broke: far starts, starts at a minimiser, floors, odd units, wrong arguments."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from ferero.errors import InputError
from ferero.methods import Ferero, FereroSA
from ferero.optimize import certify, minimize
from ferero.preference import Preference, objectives

F = objectives("f1", "f2")
X = torch.tensor([2.0, -1.5, 0.3], dtype=torch.float64)


def two(x: Tensor) -> Tensor:
    return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])


def one(x: Tensor) -> Tensor:
    return (x - 1).square().sum()[None]


@pytest.mark.parametrize("size", [1e2, 1e4])
@pytest.mark.parametrize(
    "preference", [Preference(F, [F.f1 <= 1.0]), Preference.ray([1.0, 2.0]), Preference(F, [F.f1 <= 2.0, F.f2 <= 5.0])]
)
def test_far_starts_end_where_near_ones_do(size: float, preference: Preference) -> None:
    for seed in range(5):
        x0 = size * torch.from_numpy(np.random.default_rng(seed).standard_normal(3))
        result = minimize(two, x0, preference)
        assert result.success, result
        assert bool(preference.is_satisfied(result.losses, atol=1e-5))
        assert certify(two, result.x, preference).worst < 1e-4


@pytest.mark.parametrize("offset", [0.0, 1e-6, 1e-4])
def test_a_start_at_the_minimiser_of_one_loss_is_left_where_a_bound_asks_for_it(offset: float) -> None:
    x0 = torch.full((3,), -1.0 + offset, dtype=torch.float64)
    result = minimize(two, x0, Preference(F, [F.f1 <= 1.0]))
    assert result.success
    torch.testing.assert_close(result.losses, torch.tensor([1.0, 6.0718], dtype=torch.float64), atol=1e-3, rtol=0)


def test_a_minimised_loss_may_have_a_floor_or_a_target() -> None:
    g = objectives("f1")
    assert minimize(one, X, Preference(g, [g.f1 >= 5.0])).losses.tolist() == pytest.approx([5.0], abs=1e-5)
    assert minimize(one, X, Preference(g, [g.f1 == 2.0])).losses.tolist() == pytest.approx([2.0], abs=1e-5)
    both = minimize(two, X, Preference(F, [F.f1 >= 1.0, F.f2 >= 7.0]))
    assert both.losses.tolist() == pytest.approx([1.0, 7.0], abs=1e-4)


def test_numpy_solutions_at_zero_are_reached_by_differences() -> None:
    def fun(x: np.ndarray) -> np.ndarray:
        return np.array([((x - 1) ** 2).sum(), ((x + 1) ** 2).sum()])

    for seed in range(5):
        assert minimize(fun, np.random.default_rng(seed).standard_normal(4), Preference.ray([1.0, 1.0])).success


def test_a_diverging_fixed_step_is_told_to_shrink() -> None:
    result = minimize(two, X, Preference.ray([1.0, 2.0]), step=50.0, max_iter=1000)
    assert result.status == "non_finite"
    assert "make step (and gamma of the method) smaller" in result.message


@pytest.mark.slow
def test_the_single_loop_runs_with_its_defaults() -> None:
    result = minimize(two, X, Preference.ray([1.0, 2.0]), method=FereroSA(), step=0.01, max_iter=2000)
    assert result.status in {"converged", "max_iter"}
    assert float(result.losses[1] / result.losses[0]) == pytest.approx(2.0, rel=0.05)


def test_bfloat16_points_are_taken() -> None:
    result = minimize(two, X.bfloat16(), Preference.ray([1.0, 1.0]), tol=1e-1)
    assert result.x.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: minimize(two, X, Preference.pareto(2), method="ferero"), "method: expected a method"),  # type: ignore[arg-type]
        (lambda: minimize(two, X, Preference.pareto(2), method=Ferero), "method: expected an instance"),  # type: ignore[arg-type]
        (lambda: minimize("two", X, Preference.pareto(2)), "fun: expected a function"),  # type: ignore[arg-type]
        (lambda: Ferero(domain="x"), "domain: expected"),  # type: ignore[arg-type]
        (lambda: Ferero(c_g=-1.0), "c_g: expected a positive"),
        (lambda: Ferero(solver="x"), "solver: expected one of"),  # type: ignore[arg-type]
        (lambda: certify(two, X, Preference.ray([1.0, 2.0, 3.0])), "expected 3 losses"),
        (lambda: certify(two, X, "x"), "preference: expected a Preference, found str; Preference.parse"),  # type: ignore[arg-type]
        (
            lambda: minimize(two, X, Preference.pareto(2), jac=lambda x: torch.ones(3, 2)),
            r"jac\(x\): expected shape \(2, 3\)",
        ),
    ],
)
def test_wrong_arguments_get_a_sentence(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


def test_a_point_that_is_not_finite_is_not_certified() -> None:
    kkt = certify(lambda x: two(x) * torch.nan, X, Preference.ray([1.0, 2.0]))
    assert kkt.worst == np.inf


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_a_line_through_two_points_does_not_depend_on_their_order(scale: float) -> None:
    """Named downwards it once lost its aligned merit, and with units far apart its way."""
    units = torch.tensor([1.0, scale], dtype=torch.float64)
    hills = torch.tensor([[1.0, 0.0, 0.5], [-1.0, 0.5, 0.0]], dtype=torch.float64)

    def losses(x: Tensor) -> Tensor:
        return (1 - torch.exp(-(x - hills).square().sum(dim=-1))) * units

    start = torch.tensor([0.3, 0.4, -0.2], dtype=torch.float64)
    high = losses(start)
    low = 0.2 * high
    up, down = (minimize(losses, start, Preference.between(*ends)) for ends in ((low, high), (high, low)))
    assert up.status == down.status == "converged"
    assert up.evaluations == down.evaluations
    torch.testing.assert_close(up.losses / units, down.losses / units, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_bound_from_below_just_above_the_start_is_reached(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    ends = []
    for _ in range(30):
        start, up = torch.randn(3, dtype=torch.float64, generator=generator), torch.rand(1, generator=generator).item()
        bound = float(two(start)[0]) * (1 + 0.3 * up)
        ends.append(minimize(two, start, Preference(F, [bound <= F.f1])).status)
    assert "unattainable" not in ends
    assert ends.count("converged") >= 28


@pytest.mark.slow
def test_where_all_losses_can_vanish_a_ray_is_met_in_the_end() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        A, B = torch.randn(2, 3, 8, dtype=torch.float64, generator=generator)

        def fun(x: Tensor, A: Tensor = A, B: Tensor = B) -> Tensor:
            return torch.stack([(A @ (x - 1)).square().sum(), (B @ (x - 1)).square().sum()])

        start = torch.randn(8, dtype=torch.float64, generator=generator)
        for wanted in (Preference.ray([1.0, 2.0]), Preference(F, [F.f1 == 2 * F.f2])):
            found = minimize(fun, start, wanted)
            assert found.status == "converged"
            assert found.losses.max() < 1e-8 * fun(start).max()
            assert certify(fun, found.x, wanted, x0=start).worst <= 1e-6


def test_what_has_no_lower_bound_has_no_optimum() -> None:
    found = minimize(two, X, Preference(F, minimize=F.f1 - F.f2))
    assert found.status in {"stalled", "max_iter"}
    assert "may have no lower bound" in found.message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = minimize(lambda x: torch.stack([-x[0].exp(), x[1] ** 2]), X, Preference(F, minimize=F.f1))
    assert found.status == "non_finite"
    assert "may have no lower bound" in found.message
    assert found.losses.isfinite().all()


@pytest.mark.parametrize("offset", [0.5, 2.0, 3.0, 8.0])
def test_losses_that_fall_below_zero_on_the_way(offset: float) -> None:
    generator = torch.Generator().manual_seed(0)
    ends = []
    while len(ends) < 30:
        start = 3 * torch.randn(3, dtype=torch.float64, generator=generator)
        if (two(start) > offset).all():
            ends.append(minimize(lambda x: two(x) - offset, start, Preference(F)).status)
    assert ends.count("converged") >= 29


def test_a_stop_below_the_bound_names_it() -> None:
    def kinked(x: Tensor) -> Tensor:
        return torch.stack([(x - 1).abs().sum() - 1, (x - 1).square().sum() + (x - 1).abs().sum()])

    found = minimize(kinked, torch.tensor([4.0, -3.0]).double(), Preference(F))
    assert found.status == "stalled"
    assert "kinks" in found.message
    assert ("pass lower=" in found.message) == bool(found.losses[0] < 0)
    assert "pass lower=" not in minimize(kinked, torch.tensor([4.0, -3.0]).double(), Preference(F), lower=-1).message


def test_what_is_maximised_is_not_said_to_be_held_up() -> None:
    found = minimize(two, X, Preference(F, [F.f2 <= 1], minimize=-F.f1))
    assert found.success
    assert "hold f1 up" not in found.message


@pytest.mark.parametrize(
    ("option", "value"), [("max_iter", "10"), ("max_iter", None), ("max_iter", 1.5), ("tol", "1e-3"), ("tol", 0.0)]
)
def test_options_of_the_wrong_kind(option: str, value: object) -> None:
    with pytest.raises(InputError, match=f"{option}: expected a .*, found {value!r}"):
        minimize(two, X, Preference(F), **{option: value})  # type: ignore[arg-type]


def test_functions_of_another_kind_than_the_start() -> None:
    with pytest.raises(InputError, match=r"fun\(x\): expected m numbers, found dict; return an array or a list"):
        minimize(lambda x: {"f1": 1.0, "f2": 2.0}, X.numpy(), Preference(F))  # type: ignore[arg-type, return-value]
    with pytest.raises(AttributeError) as told:
        minimize(two, X.numpy(), Preference(F))
    assert "fun was called with a numpy array, as x0 is" in told.value.__notes__[0]
    with pytest.raises(RuntimeError) as told:
        minimize(lambda x: np.array([x.numpy().sum()] * 2), X, Preference(F))
    assert "pass x0 as one" in told.value.__notes__[0]


def test_a_weak_optimum_is_said_to_be_one() -> None:
    constant = minimize(lambda x: torch.stack([(x - 1).square().sum(), 0 * x.sum() + 1]), X, Preference(F))
    assert constant.success
    assert "Nothing weighs on f1 here" in constant.message
    apart = minimize(lambda x: torch.stack([(x[0] - 1) ** 2 + 1, (x[1] + 2) ** 2 + 9]), X, Preference(F))
    assert float(apart.losses[0]) > 1.1
    assert float(apart.losses[1]) == pytest.approx(9.0)
    assert "Nothing weighs on f1 here" in apart.message
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        start = 3 * torch.randn(3, dtype=torch.float64, generator=generator)
        assert "weighs" not in minimize(two, start, Preference(F)).message
