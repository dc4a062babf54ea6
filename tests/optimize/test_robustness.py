"""What a first reviewer broke: far starts, starts at a minimiser, floors, odd units, wrong arguments."""

from __future__ import annotations

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
