"""What a scientist would use instead: SciPy's solvers on ``min t subject to F <= t ray``, on the same problems.

Fronts of four standard problems beside the exponential ones: ZDT1 (convex), ZDT2 (concave), DTLZ2 (a sphere, three
losses) and its convex form; their bounds through a smooth change of variables (see each problem). A run is solved if
it ends within 0.1 degrees of its ray (0.2 for three losses) and 0.01 of the front. The performance profile counts, for
each solver, the share of all runs solved within a multiple of the evaluations of the best solver on that run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.optimize import BFGS, NonlinearConstraint, minimize
from torch import Tensor

from ferero.subprogram import Array
from ferero_lab.bench.measure import Row, seconds
from ferero_lab.bench.rays import Attempt, judge, solve_ray
from ferero_lab.problems import DTLZ2, ZDT1, ZDT2, ConvexDTLZ2, Exponential, ExponentialThree, Problem

__all__ = ["bench_rivals"]

MULTIPLES = (1.0, 1.5, 2.0, 4.0, 8.0)
CASES: tuple[tuple[Problem, str], ...] = (
    (Exponential(), "normal"),
    (Exponential(), "easy"),
    (Exponential(), "hard"),
    (ExponentialThree(), "easy"),
    (ZDT1(), ""),
    (ZDT2(), ""),
    (DTLZ2(), ""),
    (ConvexDTLZ2(), ""),
)
Solve = Callable[[Problem, Tensor, Tensor, float], Attempt]


def bench_rivals(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], dict[str, Any]]:
    """Rows per problem and solver, and the data behind the performance profile."""
    solvers: dict[str, Solve] = {"ferero": solve_ray, "SLSQP": _slsqp, "trust-constr": _trust_constr}
    count = 10 if quick else 50
    rows: list[Row] = []
    runs: list[dict[str, Attempt]] = []
    for problem, kind in CASES:
        family = kind or problem.start_kinds[0]
        generator = torch.Generator().manual_seed(11)
        rays, starts = problem.rays(count, generator), problem.starts(family, count, generator)
        degrees = 0.1 if problem.m == 2 else 0.2
        attempts: list[dict[str, Attempt]] = []
        for ray, start in zip(rays, starts, strict=True):
            attempts.append({name: solve(problem, start, ray, degrees) for name, solve in solvers.items()})
            tick()
        runs += attempts
        group = f"{problem.name}, {family}"
        rows += [_row(group, name, [attempt[name] for attempt in attempts]) for name in solvers]
    return rows, _profile(runs, tuple(solvers))


def _row(group: str, solver: str, attempts: list[Attempt]) -> Row:
    solved = [attempt for attempt in attempts if attempt.reached]
    evaluations = f"{median(a.evaluations for a in solved):.0f} evaluations where solved" if solved else "none solved"
    note = f"{evaluations}, {1e3 * median(a.time for a in attempts):.1f} ms"
    return Row(group, f"{solver}: solved", len(solved) / len(attempts), None, True, note)


def _profile(runs: list[dict[str, Attempt]], solvers: tuple[str, ...]) -> dict[str, Any]:
    best = [min((a.evaluations for a in run.values() if a.reached), default=None) for run in runs]
    shares = {
        name: [
            sum(run[name].reached and run[name].evaluations <= multiple * least for run, least in pairs) / len(runs)
            for multiple in MULTIPLES
        ]
        for pairs in [[(run, least) for run, least in zip(runs, best, strict=True) if least is not None]]
        for name in solvers
    }
    solved = {name: sum(run[name].reached for run in runs) / len(runs) for name in solvers}
    evaluations = {name: [run[name].evaluations if run[name].reached else None for run in runs] for name in solvers}
    return {"multiples": list(MULTIPLES), "shares": shares, "solved": solved, "evaluations": evaluations}


class _Counted:
    """Losses and Jacobian of a problem for SciPy, one evaluation per new point."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._at: Array | None = None
        self.evaluations = 0

    def _update(self, x: Array) -> None:
        if self._at is not None and np.array_equal(self._at, x):
            return
        self._at = x.copy()
        self.evaluations += 1
        point = torch.from_numpy(x.copy()).requires_grad_()
        losses = self._problem(point)
        m = self._problem.m
        gradients = [torch.autograd.grad(losses[i], point, retain_graph=i + 1 < m)[0] for i in range(m)]
        self._losses: Array = losses.detach().numpy()
        self._jacobian: Array = torch.stack(gradients).numpy()

    def losses(self, x: Array) -> Array:
        """F, (m,)."""
        self._update(x)
        return self._losses

    def jacobian(self, x: Array) -> Array:
        """gradF^T, (m, n)."""
        self._update(x)
        return self._jacobian


def _on_ray(problem: Problem, start: Tensor, ray: Tensor, degrees: float, solve: Callable[..., Any]) -> Attempt:
    """``solve(counted, z0, r)`` on z = (x, t), from the smallest t that the start allows."""
    counted, r, x0 = _Counted(problem), ray.numpy(), start.numpy()
    z0 = np.append(x0, (problem(start).numpy() / r).max())
    found: list[Array] = []

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(solve(counted, z0, r).x)

    time = seconds(run)
    losses = problem(torch.from_numpy(found[0][:-1].copy()))
    return judge(problem, losses, ray, counted.evaluations, time, degrees, 0.01)


def _last(z: Array) -> Array:
    return np.append(np.zeros(len(z) - 1), 1.0)


def _slsqp(problem: Problem, start: Tensor, ray: Tensor, degrees: float) -> Attempt:
    def solve(counted: _Counted, z0: Array, r: Array) -> Any:
        constraint = {
            "type": "ineq",
            "fun": lambda z: z[-1] * r - counted.losses(z[:-1]),
            "jac": lambda z: np.hstack([-counted.jacobian(z[:-1]), r[:, None]]),
        }
        options = {"maxiter": 200}
        return minimize(lambda z: z[-1], z0, jac=_last, method="SLSQP", constraints=[constraint], options=options)  # type: ignore[call-overload]

    return _on_ray(problem, start, ray, degrees, solve)


def _trust_constr(problem: Problem, start: Tensor, ray: Tensor, degrees: float) -> Attempt:
    def solve(counted: _Counted, z0: Array, r: Array) -> Any:
        constraint = NonlinearConstraint(
            lambda z: z[-1] * r - counted.losses(z[:-1]),
            0.0,
            np.inf,
            jac=lambda z: np.hstack([-counted.jacobian(z[:-1]), r[:, None]]),
            hess=BFGS(),
        )
        options = {"maxiter": 500}
        return minimize(
            lambda z: z[-1],
            z0,
            jac=_last,
            hess=BFGS(),
            method="trust-constr",
            constraints=[constraint],
            options=options,
        )  # type: ignore[call-overload]

    return _on_ray(problem, start, ray, degrees, solve)
