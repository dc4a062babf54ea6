"""Bounds and constraints in x, as SciPy writes them: where they lead, that they hold, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint
from scipy.optimize import minimize as scipy_minimize
from torch import Tensor

import ferero
from ferero.errors import InputError, UnsupportedError
from ferero.optimize import certify, minimize, minimize_many
from ferero.preference import Preference, objectives

F = objectives("a", "b")
RAY = Preference.ray([1.0, 2.0])
LEAST = Preference(F, [F.b <= 6.0], minimize=F.a)


def two(x: Tensor) -> Tensor:
    return torch.stack([(x - 1).square().sum(), (x + 1).square().sum()])


def two_of_arrays(x: np.ndarray) -> np.ndarray:
    return np.array([((x - 1) ** 2).sum(), ((x + 1) ** 2).sum()])


X = torch.tensor([0.3, -0.4, 0.2], dtype=torch.float64)
BOX = [(-0.5, 0.1), (None, 0.4), (0.0, None)]
WAYS = {
    "pairs": BOX,
    "Bounds": Bounds([-0.5, -np.inf, 0.0], [0.1, 0.4, np.inf]),
    "array": np.array([[-0.5, 0.1], [-np.inf, 0.4], [0.0, np.inf]]),
    "tensor": torch.tensor([[-0.5, 0.1], [-np.inf, 0.4], [0.0, np.inf]]).double(),
}


@pytest.mark.parametrize("preference", [RAY, LEAST, Preference.ray([1.0, 2.0], at_most=True)])
@pytest.mark.parametrize("way", WAYS)
def test_all_ways_to_write_bounds_lead_to_the_same_point(way: str, preference: Preference) -> None:
    start = torch.tensor([0.0, 0.3, 0.3]).double()
    usual = minimize(two, start, preference, bounds=BOX)
    found = minimize(two, start, preference, bounds=WAYS[way])
    assert found.status == "converged", found
    torch.testing.assert_close(found.x, usual.x, rtol=0, atol=1e-6)
    assert certify(two, found.x, preference, bounds=WAYS[way], x0=start).worst < 1e-5


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_at_every_evaluation_to_the_last_bit(seed: int) -> None:
    """With differences too, in both precisions, and sides that binary numbers cannot hold."""
    rng = np.random.default_rng(seed)
    n = 4
    low, high = -rng.uniform(0, 1, n), rng.uniform(0, 1, n)
    seen: list[np.ndarray] = []

    def fun(x: np.ndarray) -> np.ndarray:
        seen.append(x.astype(np.float64))
        return two_of_arrays(1.5 * x)

    start = rng.uniform(-2, 2, n).astype([np.float32, np.float64][seed % 2])
    found = minimize(fun, start, RAY, bounds=Bounds(low, high), tol=1e-3 if seed % 2 == 0 else 1e-6)
    points = np.array(seen)
    assert (points >= low).all()
    assert (points <= high).all()
    assert found.x.dtype == start.dtype
    assert "moved in" in found.message
    assert found.evaluations == len(seen)
    tensors: list[Tensor] = []

    def of_tensors(x: Tensor) -> Tensor:
        tensors.append(x.detach().double())
        return two(1.5 * x)

    minimize(of_tensors, torch.from_numpy(start), RAY, bounds=Bounds(low, high), tol=1e-3)
    assert (torch.stack(tensors) >= torch.from_numpy(low)).all()
    assert (torch.stack(tensors) <= torch.from_numpy(high)).all()


def test_bound_multipliers_balance_the_weighted_gradient() -> None:
    found = minimize(two, X, LEAST, bounds=BOX)
    x = found.x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(found.weights @ two(x), x)
    assert found.status == "converged"
    assert float((slope + found.bound_multipliers).abs().max()) < 1e-5
    assert float(found.bound_multipliers[0]) > 0
    assert float(found.x[0]) == 0.1


CONSTRAINTS: dict[str, tuple[Any, Any]] = {
    "linear": (LinearConstraint(np.ones((1, 3)), 0.5, 0.5), None),
    "sparse": (LinearConstraint(sparse.csr_array(np.ones((1, 3))), 0.5, 0.5), None),
    "nonlinear": (NonlinearConstraint(lambda x: x.sum(), 0.5, 0.5), None),
    "nonlinear, jac": (NonlinearConstraint(lambda x: x.sum(), 0.5, 0.5, jac=lambda x: 0 * x[None] + 1), None),
    "dictionary": ({"type": "eq", "fun": lambda x, c: x.sum() - c, "args": (0.5,)}, None),
    "two of them": (
        [{"type": "ineq", "fun": lambda x: x.sum() - 0.5}, {"type": "ineq", "fun": lambda x: 0.5 - x.sum()}],
        None,
    ),
}


@pytest.mark.parametrize("kind", ["tensor", "array"])
@pytest.mark.parametrize("way", CONSTRAINTS)
def test_all_ways_to_write_a_constraint_lead_to_the_same_point(way: str, kind: str) -> None:
    """The sum is 0.5: the smallest a with b free is at x = 1/6 each."""
    constraint = CONSTRAINTS[way][0]
    start = X if kind == "tensor" else X.numpy()
    fun: Callable[[Any], Any] = two if kind == "tensor" else two_of_arrays
    found = minimize(fun, start, Preference(F, minimize=F.a), constraints=constraint)
    assert found.status == "converged", found
    np.testing.assert_allclose(np.asarray(found.x), 1 / 6, atol=1e-5)
    kkt = certify(fun, found.x, Preference(F, minimize=F.a), constraints=constraint, x0=start)
    assert kkt.worst < 1e-5
    total = sum(float(np.asarray(one).sum()) for one in found.constraint_multipliers)
    assert abs(sum(found.weights) - 1) < 1e-6
    assert abs(abs(total) - 2 * 5 / 6) < 1e-4


@pytest.mark.parametrize("seed", range(12))
def test_quadratic_problems_agree_with_slsqp(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 6
    roots, centres = rng.normal(size=(2, n, n)), rng.normal(size=(2, n))
    A, total = rng.normal(size=(1, n)), float(rng.normal())

    def fun(x: np.ndarray) -> np.ndarray:
        return np.array([((R @ (x - c)) ** 2).sum() for R, c in zip(roots, centres, strict=True)])

    def jac(x: np.ndarray) -> np.ndarray:
        return np.array([2 * R.T @ (R @ (x - c)) for R, c in zip(roots, centres, strict=True)])

    bounds, x0 = [(-1.0, 1.0)] * n, rng.uniform(-1, 1, n)
    total = float((A @ rng.uniform(-1, 1, n))[0])
    constraints = [
        LinearConstraint(A, total, total),
        NonlinearConstraint(lambda x: (x**2).sum(), -np.inf, 0.9 * n, jac=lambda x: 2 * x[None]),
    ]
    found = minimize(fun, x0, Preference(F, minimize=F.a + 0.3 * F.b), bounds=bounds, constraints=constraints, jac=jac)
    weights = np.array([1.0, 0.3])
    known = scipy_minimize(
        lambda x: weights @ fun(x),
        x0,
        jac=lambda x: weights @ jac(x),
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert found.status == "converged", found
    assert weights @ found.losses <= known.fun * (1 + 1e-6)
    assert abs(float((A @ found.x)[0]) - total) < 1e-5


def test_what_stands_in_the_way_is_named() -> None:
    sums = [LinearConstraint(np.ones((1, 3)), 4.0, np.inf)]
    found = minimize(two, X, RAY, bounds=[(-1, 1)] * 3, constraints=sums)
    assert found.status == "unattainable"
    assert "constraints[0] >= 4 (by 1" in found.message
    assert "Not the preference but the constraints in x" in found.message
    met = minimize(two, X, Preference(F, [F.b <= 1.0], minimize=F.a), bounds=[(0.5, 1)] * 3)
    assert met.status == "unattainable"
    assert "b <= 1" in met.message
    assert "constraints in x" not in met.message


def test_many_preferences_share_bounds_and_constraints() -> None:
    options: dict[str, Any] = {
        "bounds": [(-0.5, 0.3)] * 3,
        "constraints": {"type": "ineq", "fun": lambda x: 0.2 - x[0] + x[1]},
    }
    preferences = [Preference.ray([1.0, c], names=F) for c in (0.8, 1.0, 1.2, 1.5, 2.0)] + [LEAST]
    together = minimize_many(two, X, preferences, **options)
    front = ferero.trace(two, X, preferences, **options)
    for result, point, preference in zip(together, front, preferences, strict=True):
        alone = minimize(two, X, preference, **options)
        assert alone.status == result.status == point.status == "converged", alone
        torch.testing.assert_close(alone.losses, result.losses, rtol=0, atol=1e-5)
        assert (result.x >= -0.5).all()
        assert (result.x <= 0.3).all()


def test_parameters_that_cannot_move_do_not() -> None:
    found = minimize(two, X, RAY, bounds=[(0.3, 0.3), (None, None), (0.2, 0.2)])
    assert (float(found.x[0]), float(found.x[2])) == (0.3, 0.2)
    assert found.status == "converged"
    still = minimize(two, X, Preference(F), bounds=[(0.3, 0.3), (-0.4, -0.4), (0.2, 0.2)])
    assert still.status == "converged"


def test_many_parameters_in_a_box() -> None:
    """Beyond the dense metric: most of 2000 parameters end at a bound."""
    n = 2000
    centre = torch.linspace(-3, 3, n, dtype=torch.float64)
    stiffness = torch.linspace(1, 30, n, dtype=torch.float64)

    def fun(x: Tensor) -> Tensor:
        return torch.stack([(stiffness * (x - centre).square()).mean(), (x + centre).square().mean() + 0.1])

    found = minimize(fun, torch.zeros(n).double(), Preference(F, [F.b <= 6.0], minimize=F.a), bounds=[(-1, 1)] * n)
    assert found.status == "converged", found
    assert found.evaluations < 60


def length_changes() -> Callable[[np.ndarray], np.ndarray]:
    calls = iter(range(100))
    return lambda x: two_of_arrays(x)[: 2 if next(calls) < 12 else 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": [(0, 1)] * 2}, "bounds: expected 3 pairs, one a parameter, found 2"),
        ({"bounds": [(0, 1), (2, 1), (0, 1)]}, "bounds: expected lower <= upper, found 2 and 1 for parameter 1; swap"),
        ({"bounds": [(0, 1), (0, np.nan), (0, 1)]}, "bounds: expected numbers, found NaN as the upper bound of par"),
        ({"bounds": Bounds([0, 0], 1)}, "bounds: expected lb of one number or of 3, one a parameter, found 2"),
        ({"bounds": 3}, "bounds: expected a scipy.optimize.Bounds or a pair"),
        ({"bounds": [(0, 1, 2)] * 3}, r"found \(0, 1, 2\) for parameter 0"),
        ({"bounds": [("a", 1)] * 3}, "found 'a' for parameter 0"),
        ({"constraints": 3}, "constraints: expected SciPy's LinearConstraint"),
        ({"constraints": ["x"]}, r"constraints\[0\]: expected SciPy's LinearConstraint.*found str"),
        ({"constraints": Bounds(0, 1)}, r"bounds of parameters in bounds="),
        ({"constraints": LinearConstraint(np.ones((1, 2)), 0, 1)}, r"expected A of shape \(k, 3\), a column a param"),
        ({"constraints": {"type": "leq", "fun": two}}, "found type 'leq'"),
        ({"constraints": {"type": "eq", "fun": two, "hess": 1}}, "found the key 'hess'"),
        ({"constraints": NonlinearConstraint(lambda x: x[:2], [0, 0, 0], 1)}, r"expected one bound or 2 \(lb\)"),
        ({"constraints": NonlinearConstraint(lambda x: x, np.nan, 1)}, "found NaN; an open side is an infinity"),
        ({"constraints": NonlinearConstraint(lambda x: x, 2, 1)}, "expected lb <= ub, found 2 and 1 at index 0"),
        (
            {"constraints": NonlinearConstraint(lambda x: x, 0, 1, jac=lambda x: x)},
            r"constraints\[0\].fun, jac\(x\): expected shape \(3, 3\), a row for each value",
        ),
        ({"constraints": {"type": "eq", "fun": lambda x: x[:1].detach()}}, "carry no gradient"),
        ({"x_scale": [1.0, -1.0, 1.0]}, "x_scale: expected positive sizes"),
        ({"x_scale": [1.0, 1.0]}, "x_scale: expected one number or 3"),
        ({"atol": -1.0}, "atol: expected a non-negative number"),
        ({"diff_step": 0.0}, "diff_step: expected a positive number"),
        ({"noise": -1.0}, "noise: expected a non-negative number"),
        ({"time_limit": 0}, "time_limit: expected a positive number of seconds"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        minimize(two, X, RAY, **options)


def test_a_function_that_changes_its_length_is_refused() -> None:
    with pytest.raises(InputError, match=r"fun\(x\): expected 2 losses, as at its first call, found 1"):
        minimize(length_changes(), X.numpy(), RAY)


@pytest.mark.parametrize("options", [{"bounds": BOX}, {"constraints": CONSTRAINTS["linear"][0]}, {"x_scale": 2.0}])
def test_methods_with_steps_of_their_own_take_no_bounds(options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="only the search of step"):
        minimize(two, X, RAY, step=0.05, **options)
    with pytest.raises(UnsupportedError, match="only the search of step"):
        minimize(two, X, RAY, method=ferero.SmoothTchebycheff(), **options)


def test_keep_feasible_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="keep_feasible=True is not supported"):
        minimize(two, X, RAY, constraints=LinearConstraint(np.ones((1, 3)), 0, 1, keep_feasible=True))


def test_a_point_outside_its_bounds_is_not_certified() -> None:
    found = minimize(two, X, LEAST, bounds=BOX)
    outside = found.x + 0.2
    assert certify(two, outside, LEAST, bounds=BOX).feasibility > 0.01
