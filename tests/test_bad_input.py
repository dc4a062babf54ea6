"""Bad input, as a user meets it through the public names: the right answer, or one sentence that says what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import ferero
from ferero.errors import InputError

EYE = torch.eye(2, dtype=torch.float64)
TWO = ferero.Preference.pareto(2)
solve = ferero.solve_subprogram


def quadratics(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])


F = ferero.objectives("cpc", "zh", "en")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ferero.Preference.ray([[1.0, 2.0]]), ValueError, r"vector.*found shape \(1, 2\)"),
        (lambda: ferero.Preference.from_matrices(B_g=[1.0, 2.0]), ValueError, r"B_g: expected a matrix"),
        (lambda: solve(TWO, [1.0], EYE), ValueError, r"losses: expected shape"),
        (lambda: TWO.violation([1.0, 2.0, 3.0]), ValueError, r"losses.*\(\.\.\., 2\)|losses.*2"),
        (lambda: F.zhh, AttributeError, r"did you mean 'zh'"),
        (lambda: ferero.Preference.parse("zhh <= 1", names=["zh", "en"]), LookupError, r"zhh"),
        (lambda: ferero.Preference.parse("zh <=", names=["zh", "en"]), ValueError, r"\^"),
        (lambda: ferero.Cone(np.zeros((0, 2))), ValueError, r"row"),
        (lambda: ferero.Cone([[0.0, 0.0]]), ValueError, r"zero"),
        (lambda: ferero.Cone([[1.0, 0.0], [-1.0, 0.0]]), ValueError, r"interior"),
        (lambda: ferero.Cone.from_rays([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]), ValueError, r"whole space"),
        (lambda: ferero.Cone.orthant(2).allowing_ascent([0.1, 0.1], [0.5, 0.6]), ValueError, r"better"),
        (lambda: ferero.Preference(F, [F.zh <= 1.0, F.zh >= 2.0]), ValueError, r"zh <= 1.*zh >= 2"),
        (lambda: ferero.minimize(lambda x: quadratics(x) - 9.0, torch.ones(2), TWO), ValueError, r"lower="),
        (lambda: solve(TWO, [-1.0, 1.0], EYE), ValueError, r"domain=\"simplex\""),
        (lambda: solve(TWO, [np.nan, 1.0], EYE), ArithmeticError, r"losses.*nan"),
        (lambda: solve(TWO, [1.0, 1.0], EYE * np.inf), ArithmeticError, r"gramian"),
        (lambda: ferero.nondominated([[1.0, np.nan]]), ArithmeticError, r"nan"),
    ],
)  # fmt: skip
def test_one_sentence_says_what_to_do(call: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert isinstance(caught.value, ferero.FereroError)


def test_non_finite_losses_are_a_status_not_an_exception() -> None:
    result = ferero.minimize(lambda x: quadratics(x) / 0.0, torch.ones(2), TWO)
    assert result.status == "non_finite"
    assert "fun(x0) is not finite (f1 = nan" in result.message


def test_zero_gradients_are_stationary() -> None:
    s = solve(TWO, [1.0, 2.0], 0 * EYE)
    assert s.status == "optimal"
    assert s.slopes.abs().max() == 0


def test_one_objective_and_forty() -> None:
    single = solve(ferero.Preference.pareto(1), [2.0], [[4.0]])
    assert single.slopes.tolist() == [-4.0]
    J = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 60)))
    many = solve(ferero.Preference.ray(np.arange(1.0, 41.0)), torch.arange(1.0, 41.0), J @ J.T)
    assert many.status == "optimal"
    assert many.residual <= 1e-8


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_computed_in_double(dtype: torch.dtype) -> None:
    losses, gramian = torch.tensor([1.0, 2.0], dtype=dtype), torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=dtype)
    p = ferero.Preference.ray([1.0, 2.0])
    found, expected = (solve(p, F, K) for F, K in ((losses, gramian), (losses.double(), gramian.double())))
    torch.testing.assert_close(found.slopes, expected.slopes)


def test_an_unattainable_preference_comes_with_the_closest_point_its_violation_and_what_binds() -> None:
    f = ferero.objectives("f1", "f2")
    p = ferero.Preference(f, [f.f1 <= 0.5, f.f2 <= 0.5])
    result = ferero.minimize(quadratics, torch.tensor([0.3, -0.2], dtype=torch.float64), p)
    assert result.status == "unattainable"
    assert float(p.violation(result.losses).max()) > 0.1
    assert "f1 <= 0.5" in result.message or "f2 <= 0.5" in result.message


@pytest.mark.parametrize(
    ("mistake", "hint"),
    [
        (lambda f: ferero.Preference(f, ["a <= 1"]), r"Preference\.parse\('a <= 1'\)"),
        (lambda f: ferero.Preference(f, minimize="a"), r"write f\.a"),
        (lambda f: max(f.a, f.b), "bounds on both"),
        (lambda f: (f.a <= 1) & (f.b <= 1), r"into the list, \[a <= 1, \.\.\.\]"),
        (lambda f: (f.a <= 1) and (f.b <= 1), "'and' does not join"),
        (lambda f: ferero.Steer([f.a <= 1]), r"Preference\(f, \[\.\.\.\]\)"),
        (lambda f: ferero.minimize(lambda x: x, torch.ones(2), [2, 1]), r"Preference\.ray\(\[\.\.\.\]\)"),
        (lambda f: ferero.Steer(ferero.Preference(f))(torch.ones((), requires_grad=True)), "pass them together"),
    ],
)
def test_what_people_write_first_is_answered_by_what_to_write(mistake, hint):
    with pytest.raises(InputError, match=hint):
        mistake(ferero.objectives("a", "b"))
