"""Rays on smooth problems: how many are reached and in how many evaluations, by ferero and by SciPy's solvers.

SciPy solves ``min t subject to F <= t ray`` on the exponential problems and on four standard ones: ZDT1 (convex), ZDT2
(concave), DTLZ2 (a sphere, three losses) and its convex form; their bounds through a smooth change of variables (see
each problem). A run is solved if it ends within 0.1 degrees of its ray (0.2 for three losses) and 0.01 of the front.
The performance profile counts, for each solver, the share of all runs solved within a multiple of the evaluations of
the best solver on that run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import piqp
import torch
from scipy.optimize import BFGS, NonlinearConstraint, minimize
from torch import Tensor

import ferero
from ferero.subprogram import Array
from ferero_lab.bench.measure import Row, seconds, summary
from ferero_lab.problems import DTLZ2, ZDT1, ZDT2, ConvexDTLZ2, Exponential, ExponentialThree, Problem

__all__ = ["Attempt", "bench_rays", "bench_scipy", "judge", "solve_ray"]

FAMILIES = {
    "normal": 25,
    "easy": 10,
    "hard": 16,
    "hard-mixed": None,
}  # and the most evaluations, in the median


@dataclass(frozen=True)
class Attempt:
    """One ray from one start by one solver."""

    reached: bool
    evaluations: int
    time: float
    error: float
    distance: float


def solve_ray(problem: Problem, start: Tensor, ray: Tensor, degrees: float, distance: float = 0.01) -> Attempt:
    """`ferero.minimize` with its defaults."""
    preference = ferero.Preference.ray(ray)
    found: list[ferero.Result] = []
    time = seconds(lambda: found.append(ferero.minimize(problem, start, preference)))
    return judge(problem, found[0].losses, ray, found[0].evaluations, time, degrees, distance)


def judge(
    problem: Problem,
    losses: Tensor,
    ray: Tensor,
    evaluations: int,
    time: float,
    degrees: float,
    distance: float,
) -> Attempt:
    """Whether losses are on the ray and on the front."""
    error = float(ferero.ray_error(losses, ray))
    off = float(problem.distance_to_front(losses))
    return Attempt(error < degrees and off < distance, evaluations, time, error, off)


def bench_rays(quick: bool, tick: Callable[[], None]) -> list[Row]:
    """All rows about rays."""
    return [*_two(60 if quick else 1000, tick), *_three(30 if quick else 300, tick), *_trace(tick)]


def _two(count: int, tick: Callable[[], None]) -> list[Row]:
    problem, rows = Exponential(), []
    for family, most in FAMILIES.items():
        generator = torch.Generator().manual_seed(7)
        rays, starts = problem.rays(count, generator), problem.starts(family, count, generator)
        attempts, prices = [], []
        for ray, start in zip(rays, starts, strict=True):
            attempts.append(solve_ray(problem, start, ray, 0.1))
            prices.append((seconds(partial(_losses_and_jacobian, problem, start)), seconds(_bare_piqp)))
            tick()
        group = f"two objectives, {family}"
        evaluations = [attempt.evaluations for attempt in attempts]
        share = sum(attempt.reached for attempt in attempts) / count
        bar = 0.99 if most is not None else None
        rows.append(Row(group, "reached (0.1 degrees, 0.01 of the front)", share, bar, True, f"{count} random rays"))
        rows.append(Row(group, "evaluations, median", median(evaluations), most, note=summary(evaluations)))
        unit = median(one for one, _ in prices) + median(bare for _, bare in prices)
        ratio = median(attempt.time / (attempt.evaluations * unit) for attempt in attempts)
        milliseconds = 1e3 * median(attempt.time for attempt in attempts)
        limit = 3.0 if most is not None else None
        rows.append(
            Row(
                group,
                "time / (evaluations x (F and Jacobian + piqp))",
                ratio,
                limit,
                note=f"{milliseconds:.1f} ms",
            )
        )
    return rows


def _three(count: int, tick: Callable[[], None]) -> list[Row]:
    problem = ExponentialThree()
    generator = torch.Generator().manual_seed(8)
    rays, starts = problem.rays(count, generator), problem.starts("easy", count, generator)
    attempts = []
    for ray, start in zip(rays, starts, strict=True):
        attempts.append(solve_ray(problem, start, ray, 0.2))
        tick()
    evaluations = [attempt.evaluations for attempt in attempts]
    share = sum(attempt.reached for attempt in attempts) / count
    note = f"{count} rays through the front"
    return [
        Row("three objectives", "reached (0.2 degrees, 0.01 of the front)", share, 0.97, True, note),
        Row("three objectives", "evaluations, median", median(evaluations), note=summary(evaluations)),
    ]


def _trace(tick: Callable[[], None]) -> list[Row]:
    problem, rows = Exponential(), []
    for family in ("easy", "hard", "normal"):
        generator = torch.Generator().manual_seed(9)
        rays, starts = problem.rays(100, generator), problem.starts(family, 100, generator)
        preferences = [ferero.Preference.ray(ray) for ray in rays]
        together, alone = _together_and_alone(problem, starts, preferences, tick)
        note = f"{1e3 * together:.0f} ms against {1e3 * alone:.1f} ms"
        rows.append(Row("trace", f"100 rays over one minimize, {family} starts", together / alone, 8.0, note=note))
    return rows


def _together_and_alone(
    problem: Problem, starts: Tensor, preferences: list[ferero.Preference], tick: Callable[[], None]
) -> tuple[float, float]:
    """Median times of five traces and of twenty single solves of the same, in turn."""
    ferero.trace(problem, starts, preferences)
    together, alone = [], []
    for turn in range(5):
        together.append(seconds(lambda: ferero.trace(problem, starts, preferences)))
        for i in range(4 * turn, 4 * turn + 4):
            call = partial(ferero.minimize, problem, starts[i], preferences[i])
            alone.append(seconds(call))
        tick()
    return median(together), median(alone)


def _losses_and_jacobian(problem: Problem, start: Tensor) -> list[Tensor]:
    x = start.clone().requires_grad_()
    losses = problem(x)
    return [torch.autograd.grad(losses[i], x, retain_graph=i + 1 < problem.m)[0] for i in range(problem.m)]


def _bare_piqp() -> None:
    """One call for two losses and their equality."""
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-12
    Q = np.asfortranarray([[1.0, 0.2, 0.4], [0.2, 1.0, -0.4], [0.4, -0.4, 0.4]])
    lower, upper = np.array([0.0, 0.0, -np.inf]), np.full(3, np.inf)
    solver.setup(Q, np.array([0.0, 0.0, -0.1]), np.asfortranarray([[0.5, 0.5, 0.0]]), np.ones(1), x_l=lower, x_u=upper)
    solver.solve()


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


def bench_scipy(quick: bool, tick: Callable[[], None]) -> tuple[list[Row], dict[str, Any]]:
    """Rows per problem and solver, SciPy's beside ferero's, and the performance profile."""
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
        rows += [_solved(group, name, [attempt[name] for attempt in attempts]) for name in solvers]
    return rows, _profile(runs, tuple(solvers))


def _solved(group: str, solver: str, attempts: list[Attempt]) -> Row:
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
