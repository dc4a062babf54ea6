"""The solvers, each in its best form: `ferero.minimize`, SciPy's SLSQP and trust-constr, and IPOPT.

All get the same starts and the same exact gradients. An evaluation is a point at which values or gradients were asked
for; asking for both, or again, is no further one. The others solve the goal's `NonlinearProgram` in variables of unit
size where there is a box; t starts as small as the start allows.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import optimize

import ferero
from ferero_lab.bench.solver.goal import Goal
from ferero_lab.bench.solver.smooth import FloatArray, SmoothProblem

__all__ = [
    "IPOPT_OPTIONS",
    "SLSQP_OPTIONS",
    "SOLVERS",
    "Counter",
    "Reply",
    "Solver",
    "available",
    "offers",
    "refusal",
    "seconds_on_torch",
]


@dataclass(frozen=True)
class Reply:
    """What a solver gives back.

    Attributes:
        x: its point (n,).
        evaluations: points at which it asked.
        seconds: that it took.
        status: its own word for how it ended.
    """

    x: FloatArray
    evaluations: int
    seconds: float
    status: str


SLSQP_OPTIONS: dict[str, Any] = {"maxiter": 200, "ftol": 1e-10}
IPOPT_OPTIONS: dict[str, Any] = {"max_iter": 300, "tol": 1e-6, "limited_memory_max_history": 20}
"""Chosen on the tune half: most solved, then fewest evaluations."""

Solver: TypeAlias = Callable[[Goal, FloatArray, bool], Reply]
"""``solve(goal, x0, tight)``."""


class Counter:
    """Values and gradients of a problem; counts the points, and keeps those of the last.

    Args:
        problem: the problem.
        with_torch: compute both by torch and its autograd.
    """

    def __init__(self, problem: SmoothProblem, with_torch: bool = False) -> None:
        self._problem, self._seen, self._with_torch = problem, set[bytes](), with_torch
        self._at = self._slopes_at = b""

    @property
    def evaluations(self) -> int:
        """How many different points there were."""
        return len(self._seen)

    def values(self, x: FloatArray) -> FloatArray:
        """Losses and constraints (m + p,)."""
        key = x.tobytes()
        if key != self._at and self._with_torch:
            self._seen.add(key)
            self._at = self._slopes_at = key
            point = torch.from_numpy(x.copy()).requires_grad_()
            values = self._problem.torch_values(point)
            rows = [torch.autograd.grad(value, point, retain_graph=True)[0] for value in values]
            self._values, self._slopes = torch.stack(values).detach().numpy(), torch.stack(rows).numpy()
        elif key != self._at:
            self._seen.add(key)
            self._at, self._values = key, self._problem.values(x)
        return self._values

    def slopes(self, x: FloatArray) -> FloatArray:
        """Their gradients (m + p, n)."""
        key = x.tobytes()
        if key != self._slopes_at and self._with_torch:
            self._at = b""
            self.values(x)
        elif key != self._slopes_at:
            self._seen.add(key)
            self._slopes_at, self._slopes = key, self._problem.jacobian(x)
        return self._slopes


# ferero ------------------------------------------------------------------------------------------------------


@lru_cache
def offers(function: Callable[..., Any], option: str) -> bool:
    """Whether a function of this ferero has an option."""
    return option in inspect.signature(function).parameters


def refusal(solver: str, goal: Goal) -> str:
    """Why a solver cannot try a goal; empty if it can."""
    if solver == "IPOPT" and find_spec("ipyopt") is None:
        return "ipyopt is not installed; pip install ipyopt."
    if solver == "ferero":
        if goal.of.is_bounded and not offers(ferero.minimize, "bounds"):
            return "this ferero has no bounds."
        if goal.kind == "at most" and not offers(ferero.Preference.ray, "at_most"):
            return "this ferero has no rays with at_most."
    return ""


def _ferero(goal: Goal, x0: FloatArray, tight: bool) -> Reply:
    problem, preference = goal.of, goal.preference()
    counter, m = Counter(problem), problem.m
    options: dict[str, Any] = {"tol": 1e-9, "max_iter": 300} if tight else {}
    if problem.is_bounded:
        options["bounds"] = optimize.Bounds(*problem.bounds)
    if problem.p:
        options["constraints"] = optimize.NonlinearConstraint(
            lambda x: counter.values(x)[m:], -np.inf, 0.0, jac=lambda x: counter.slopes(x)[m:]
        )

    def losses(x: FloatArray) -> FloatArray:
        return counter.values(x)[:m]

    def slopes(x: FloatArray) -> FloatArray:
        return counter.slopes(x)[:m]

    status = ""
    begin = time.perf_counter()
    try:
        found = ferero.minimize(losses, x0, preference, jac=slopes, **options)
        x, status = np.asarray(found.x), found.status
    except (ArithmeticError, ValueError) as error:  # an error is a failure to solve, not of the benchmark
        x, status = np.full(problem.n, np.nan), f"{type(error).__name__}: {error}"
    return Reply(x, counter.evaluations, time.perf_counter() - begin, status)


def _ferero_on_torch(goal: Goal, x0: FloatArray) -> Reply:
    """As a user of torch calls it: a tensor, no jac."""
    problem, preference = goal.of, goal.preference()
    options = dict[str, Any]()
    if problem.is_bounded:
        options["bounds"] = optimize.Bounds(*problem.bounds)
    if problem.p:
        margins: Any = problem.torch_constraints
        options["constraints"] = optimize.NonlinearConstraint(margins, -np.inf, 0.0)
    begin = time.perf_counter()
    found = ferero.minimize(problem.torch_losses, torch.from_numpy(x0), preference, **options)
    seconds = time.perf_counter() - begin
    return Reply(np.asarray(found.x), found.evaluations, seconds, found.status)


def seconds_on_torch(goal: Goal, x0: FloatArray) -> tuple[float, float]:
    """How long ferero and SLSQP take, in turn, where losses are functions of torch."""
    problem = goal.of
    problem.torch_values(torch.from_numpy(x0))  # compiled before anything is timed
    return _ferero_on_torch(goal, x0).seconds, _slsqp(goal, x0, False, with_torch=True).seconds


# the nonlinear program ---------------------------------------------------------------------------------------


class _UnitProgram:
    """The goal's program in z: the variables, of unit size where there is a box, and t if it has one."""

    def __init__(self, goal: Goal, x0: FloatArray, with_torch: bool) -> None:
        self.program, problem = goal.program, goal.of
        self.counter, self._n = Counter(problem, with_torch), problem.n
        low, high = problem.bounds
        self._size = problem.width if problem.is_bounded else np.ones(problem.n)
        self._origin = low if problem.is_bounded else np.zeros(problem.n)
        self._bounds = low, high
        free = np.full(int(self.program.has_t), np.inf)
        self.low = np.append((low - self._origin) / self._size, -free)
        self.high = np.append((high - self._origin) / self._size, free)
        self.has_bounds = problem.is_bounded
        self.start = (x0 - self._origin) / self._size
        if self.program.has_t:
            values = self.counter.values(self.x_of(self.start))
            rows, constants, slopes = self._on_ray()
            self.start = np.append(self.start, ((rows @ values + constants) / -slopes).max())
        self._t: FloatArray = np.eye(len(self.start))[-1]

    def _on_ray(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        p = self.program
        if len(p.equal):
            return p.equal, p.equal_constants, p.equal_slopes
        which = p.most_slopes < 0
        return p.most[which], p.most_constants[which], p.most_slopes[which]

    def x_of(self, z: FloatArray) -> FloatArray:
        """The variables; rounding does not take them over a bound."""
        x: FloatArray = self._origin + z[: self._n] * self._size
        if self.has_bounds:
            np.clip(x, *self._bounds, out=x)
        return x

    def objective(self, z: FloatArray) -> float:
        if self.program.has_t:
            return float(z[-1])
        return float(self.program.objective @ self.counter.values(self.x_of(z)) + self.program.constant)

    def gradient(self, z: FloatArray) -> FloatArray:
        if self.program.has_t:
            return self._t
        slopes: FloatArray = (self.program.objective @ self.counter.slopes(self.x_of(z))) * self._size
        return slopes

    def equal(self, z: FloatArray) -> FloatArray:
        p = self.program
        return self._rows(z, p.equal, p.equal_constants, p.equal_slopes)

    def equal_slopes(self, z: FloatArray) -> FloatArray:
        return self._slopes(z, self.program.equal, self.program.equal_slopes)

    def most(self, z: FloatArray) -> FloatArray:
        p = self.program
        return self._rows(z, p.most, p.most_constants, p.most_slopes)

    def most_slopes(self, z: FloatArray) -> FloatArray:
        return self._slopes(z, self.program.most, self.program.most_slopes)

    def _rows(self, z: FloatArray, rows: FloatArray, constants: FloatArray, slopes: FloatArray) -> FloatArray:
        values: FloatArray = rows @ self.counter.values(self.x_of(z)) + constants
        if self.program.has_t:
            values += z[-1] * slopes
        return values

    def _slopes(self, z: FloatArray, rows: FloatArray, slopes: FloatArray) -> FloatArray:
        in_x: FloatArray = (rows @ self.counter.slopes(self.x_of(z))) * self._size
        if not self.program.has_t:
            return in_x
        return np.hstack([in_x, slopes[:, None]])


def _timed(
    goal: Goal, x0: FloatArray, solve: Callable[[_UnitProgram], tuple[FloatArray, str]], with_torch: bool = False
) -> Reply:
    begin = time.perf_counter()
    scaled = _UnitProgram(goal, x0, with_torch)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            z, status = solve(scaled)
        x = scaled.x_of(z)
    except (ArithmeticError, ValueError) as error:
        x, status = np.full(len(x0), np.nan), f"{type(error).__name__}: {error}"
    return Reply(x, scaled.counter.evaluations, time.perf_counter() - begin, status)


def _slsqp(goal: Goal, x0: FloatArray, tight: bool, with_torch: bool = False) -> Reply:
    def solve(s: _UnitProgram) -> tuple[FloatArray, str]:
        constraints = []
        if len(s.program.equal):
            constraints.append({"type": "eq", "fun": s.equal, "jac": s.equal_slopes})
        if len(s.program.most):
            constraints.append({"type": "ineq", "fun": lambda z: -s.most(z), "jac": lambda z: -s.most_slopes(z)})
        found = optimize.minimize(  # type: ignore[call-overload]
            s.objective,
            s.start,
            jac=s.gradient,
            method="SLSQP",
            bounds=optimize.Bounds(s.low, s.high) if s.has_bounds else None,
            constraints=constraints,
            options={"maxiter": 500, "ftol": 1e-14} if tight else SLSQP_OPTIONS,
        )
        return found.x, str(found.message)

    return _timed(goal, x0, solve, with_torch)


def _trust_constr(goal: Goal, x0: FloatArray, tight: bool) -> Reply:
    def solve(s: _UnitProgram) -> tuple[FloatArray, str]:
        constraints = []
        if len(s.program.equal):
            constraints.append(
                optimize.NonlinearConstraint(s.equal, 0.0, 0.0, jac=s.equal_slopes, hess=optimize.BFGS())
            )
        if len(s.program.most):
            constraints.append(
                optimize.NonlinearConstraint(s.most, -np.inf, 0.0, jac=s.most_slopes, hess=optimize.BFGS())
            )
        found = optimize.minimize(
            s.objective,
            s.start,
            jac=s.gradient,
            hess=optimize.BFGS(),
            method="trust-constr",
            bounds=optimize.Bounds(s.low, s.high, keep_feasible=True) if s.has_bounds else None,
            constraints=constraints,
            options={"maxiter": 1000 if tight else 300, "gtol": 1e-10 if tight else 1e-9},
        )
        return found.x, str(found.message)

    return _timed(goal, x0, solve)


def _ipopt(goal: Goal, x0: FloatArray, tight: bool) -> Reply:
    import ipyopt

    def solve(s: _UnitProgram) -> tuple[FloatArray, str]:
        n, k, p = len(s.start), len(s.program.equal), len(s.program.most)

        def gradient(z: FloatArray, out: FloatArray) -> None:
            out[:] = s.gradient(z)

        def rows(z: FloatArray, out: FloatArray) -> None:
            out[:k] = s.equal(z) if k else 0.0
            out[k:] = s.most(z) if p else 0.0

        def slopes(z: FloatArray, out: FloatArray) -> None:
            out[: k * n] = s.equal_slopes(z).ravel() if k else 0.0
            out[k * n :] = s.most_slopes(z).ravel() if p else 0.0

        where = np.divmod(np.arange((k + p) * n), n)
        none = np.zeros(0, dtype=np.int64)
        program = ipyopt.Problem(
            n,
            np.maximum(s.low, -2e19),
            np.minimum(s.high, 2e19),
            k + p,
            np.append(np.zeros(k), np.full(p, -2e19)),
            np.zeros(k + p),
            where,
            (none, none),
            s.objective,
            gradient,
            rows,
            slopes,
            ipopt_options={
                "print_level": 0,
                "sb": "yes",
                "hessian_approximation": "limited-memory",
                "bound_relax_factor": 0.0,  # some losses are not defined beyond their bounds
                **({"tol": 1e-10, "max_iter": 500} if tight else IPOPT_OPTIONS),
            },
        )
        found, _, code = program.solve(s.start.copy())
        return found, f"code {code}"

    return _timed(goal, x0, solve)


SOLVERS: dict[str, Solver] = {"ferero": _ferero, "SLSQP": _slsqp, "IPOPT": _ipopt, "trust-constr": _trust_constr}
"""By name, ferero first."""


def available() -> tuple[str, ...]:
    """Those that can run here."""
    return tuple(name for name in SOLVERS if name != "IPOPT" or find_spec("ipyopt") is not None)
