"""Verdicts are right: no false "converged", and no false "unattainable" on convex problems."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from tests.optimize.known_answers import known_answer

import ferero
from ferero.errors import InputError, UnsupportedError
from ferero.optimize import certify, minimize
from ferero.preference import Preference, objectives

F = objectives("a", "b")


def verdicts(numbers: range) -> tuple[Counter[str], dict[int, str]]:
    counts: Counter[str] = Counter()
    faults = {}
    for number in numbers:
        problem = known_answer(number)
        result = minimize(problem.fun, problem.x0, problem.preference, jac=problem.jac, **problem.options)
        counts[f"{'no' if problem.answer is None else 'an'} answer, {result.status}"] += 1
        if fault := problem.fault(result):
            faults[number] = f"{problem.family}: {fault}"
    return counts, faults


def test_verdicts_on_problems_with_known_answers_are_right() -> None:
    counts, faults = verdicts(range(240))
    assert not faults
    assert counts["an answer, converged"] >= 0.98 * 210
    assert counts["no answer, unattainable"] >= 0.95 * 30


@pytest.mark.slow
def test_verdicts_on_2000_problems_with_known_answers_are_right() -> None:
    counts, faults = verdicts(range(240, 2240))
    assert not faults
    assert counts["an answer, converged"] >= 0.98 * 1750
    assert counts["no answer, unattainable"] >= 0.95 * 250


def test_units_that_differ_by_1e4_do_not_pass_for_an_optimum() -> None:
    units = torch.tensor([1.0, 1e4, 1e-4]).double()

    def fun(x: torch.Tensor) -> torch.Tensor:
        y = x / units
        return torch.stack([(y - 1).square().sum() + 0.1, (y + 1).square().sum() + 0.1])

    half_way = torch.tensor([0.0, 3e3, 0.0]).double()  # only the second parameter is off, and its slopes are tiny
    assert certify(fun, half_way, Preference.ray(fun(half_way))).worst > 1e-5
    for start in (torch.zeros(3).double() + 0.3, torch.tensor([0.3, 5e3, 2e-5]).double()):
        found = minimize(fun, start, Preference.ray([1.0, 1.0]))
        assert found.success
        assert found.losses.tolist() == pytest.approx([3.1, 3.1], rel=1e-5)


def test_a_parameters_scale_may_be_given() -> None:
    units = torch.tensor([1.0, 1e6]).double()

    def fun(x: torch.Tensor) -> torch.Tensor:
        y = x / units
        return torch.stack([(y - 1).square().sum(), (y + 1).square().sum()])

    found = minimize(fun, torch.tensor([0.5, 0.0]).double(), Preference.ray([1.0, 2.0]), x_scale=units)
    assert found.success
    assert found.evaluations < 15


def test_a_floor_does_not_hide_a_violation() -> None:
    def fun(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([(x - 1).square().sum(), (x + 1).square().sum() + 1e8])

    asked = Preference(F, [F.b <= 1e8 + 1.0], minimize=F.a)
    found = minimize(fun, torch.tensor([2.0, 3.0]).double(), asked)
    assert found.success
    assert float(found.losses[1]) - 1e8 == pytest.approx(1.0, abs=1e-4)
    assert certify(fun, torch.tensor([0.2, 0.6]).double(), asked).feasibility > 0.1


def test_atol_says_what_is_close_enough() -> None:
    def fun(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])

    asked = Preference(F, [F.b <= 7.9, F.a <= 1e-6], minimize=F.a)  # a = 0 needs b = 8
    start = torch.tensor([2.0, 3.0]).double()
    assert minimize(fun, start, asked).status == "unattainable"
    assert minimize(fun, start, asked, atol=0.2).status == "converged"


def test_a_nearly_flat_direction_is_followed_to_where_the_bound_is_met() -> None:
    """The violation's gradient is a thousandth of its parts, and the way is long, but there is one."""

    def fun(x: torch.Tensor) -> torch.Tensor:
        along = x[0] + x[1]
        across = x[0] - x[1]
        return torch.stack([across.square() + 1e-6 * (along - 500).square() + 1, across.square() + 0.1 * x[2] ** 2])

    found = minimize(fun, torch.tensor([0.5, -0.5, 1.0]).double(), Preference(F, [F.a <= 1.1], minimize=F.b))
    assert found.status == "converged", found


def test_a_loss_that_an_equality_fixes_is_not_said_to_be_free() -> None:
    def fun(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])

    found = minimize(fun, torch.tensor([0.4, 0.9]).double(), Preference(F, [F.a == 2.0, F.b == 4.0]))
    assert found.status == "converged"
    assert "less of it" not in found.message


def test_a_ray_that_misses_the_front_has_an_answer_as_an_upper_limit() -> None:
    def fun(x: torch.Tensor) -> torch.Tensor:
        first = x.square().sum() + 0.5
        return torch.stack([first, first + 1 + (x - 1).square().sum()])

    start = torch.tensor([0.3, -0.4]).double()
    assert minimize(fun, start, Preference.ray([2.0, 1.0])).status == "unattainable"
    found = minimize(fun, start, Preference.ray([2.0, 1.0], at_most=True))
    assert found.status == "converged"
    assert found.x.tolist() == pytest.approx([0.5, 0.5], abs=1e-5)  # the smallest second loss
    both = minimize(fun, start, Preference.ray([2.0, 1.0], at_most=True, names=F) & Preference(F, [F.a <= 0.8]))
    assert both.status == "converged"
    assert float(both.losses[0]) <= 0.8 + 1e-5


def test_a_function_that_fails_on_the_way_is_stepped_back_from() -> None:
    def fun(x: np.ndarray) -> np.ndarray:
        if x[0] > 2.5:
            raise ValueError("no model out there")
        root = np.sqrt(2.5 - x[0])
        return np.array([(x[0] - 2.4) ** 2 + x[1] ** 2 + 0.01 * root, (x[0] + 1) ** 2 + x[1] ** 2])

    found = minimize(fun, np.array([-0.9, 1.0]), Preference(F, [F.b <= 40.0], minimize=F.a))
    assert found.success
    with pytest.raises(ValueError, match="no model out there"):
        minimize(fun, np.array([3.0, 1.0]), Preference.ray([1.0, 1.0]))

    def broken(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()]) * (2 - x.square().sum()).sqrt()

    assert minimize(broken, torch.tensor([1.0, -0.9]).double(), Preference.ray([1.0, 1.0])).status != "non_finite"


def test_noise_and_wide_differences_reach_what_rounding_alone_does_not() -> None:
    draw = np.random.default_rng(0)

    def fun(x: np.ndarray) -> np.ndarray:
        clean = np.array([((x - 1) ** 2).sum(), ((x + 1) ** 2).sum()])
        return clean + 1e-5 * draw.standard_normal(2)

    wide = minimize(fun, np.array([0.4, -1.3, 0.2]), Preference.ray([1.0, 2.0]), noise=1e-5, tol=1e-2)
    assert wide.success
    assert wide.losses[1] / wide.losses[0] == pytest.approx(2.0, rel=0.02)


def test_the_time_limit_ends_a_run_with_its_best_point() -> None:
    def fun(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([(1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, x.square().sum() + 1])

    found = minimize(fun, torch.tensor([-1.2, 1.0]).double(), Preference(F, minimize=F.a), time_limit=1e-6)
    assert (found.status, found.iterations <= 1) == ("max_iter", True)
    assert "time_limit was reached" in found.message


def test_an_upper_limit_is_refused_where_nothing_searches_for_it() -> None:
    asked = Preference.ray([1.0, 2.0], at_most=True)
    for refused in (
        lambda: ferero.Steer(asked),
        lambda: ferero.solve_subprogram(asked, [1.0, 1.0], np.eye(2)),
        lambda: minimize(lambda x: x[:2] ** 2, torch.ones(2), asked, step=0.05),
    ):
        with pytest.raises(UnsupportedError, match="at_most=True"):
            refused()
    with pytest.raises(InputError, match="vector: expected positive components with at_most=True"):
        Preference.ray([1.0, 0.0], at_most=True)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_ray_that_is_met_in_another_valley_of_the_violation_is_found_there(unit: float, size: float) -> None:
    """The difference of the losses has a local minimum of 0.6 on the side of the start, and vanishes on the other."""

    def fun(z: torch.Tensor) -> torch.Tensor:
        x = z[0] / unit
        second = 1 + 0.1 * x**2
        return size * torch.stack([second + 0.05 * (x**2 - 4) ** 2 - 0.3 * x, second])

    for start in (-3.0, -2.5, -2.0, -1.5):
        found = minimize(fun, torch.tensor([unit * start]).double(), Preference.ray([1.0, 1.0]))
        assert found.status == "converged", found
        assert float(found.losses[0]) == pytest.approx(float(found.losses[1]), rel=1e-5)
        assert float(found.x[0]) > 0
