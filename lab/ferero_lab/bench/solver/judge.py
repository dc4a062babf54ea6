"""Whether a point solves a goal, by the values and gradients of the problem alone: no code of the library is used.

*Feasible*: no constraint of the goal's program, nor a bound, is exceeded by more than 1e-5 (of the loss's range, of the
constraint's usual size, of the box). *Solved*: feasible, and the objective within 1e-4 of the best that is known.
*Local*: feasible, worse than that, and first-order optimal to 1e-4: another valley of a problem that is not convex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ferero_lab.bench.solver.goal import Goal
from ferero_lab.bench.solver.smooth import FloatArray

__all__ = ["FEASIBLE", "OPTIMAL", "SOLVED", "Judgement", "judge", "residual", "stationarity"]

FEASIBLE, SOLVED, OPTIMAL = 1e-5, 1e-4, 1e-4


@dataclass(frozen=True)
class Judgement:
    """What a point is worth.

    Attributes:
        violation: the largest, in the units of the goal; inf for values that are not finite.
        objective: in the units of the goal.
        optimality: the residual of the first-order conditions; inf if it is not feasible.
    """

    violation: float
    objective: float
    optimality: float

    @property
    def is_feasible(self) -> bool:
        """Within `FEASIBLE`."""
        return self.violation <= FEASIBLE

    def is_solved(self, best: float | None) -> bool:
        """Feasible and as good as the best that is known."""
        return self.is_feasible and best is not None and self.objective <= best + SOLVED

    def is_local(self, best: float | None) -> bool:
        """Not solved, but a local solution."""
        return self.is_feasible and not self.is_solved(best) and self.optimality <= OPTIMAL


def judge(goal: Goal, x: FloatArray) -> Judgement:
    """The judgement of a point (n,)."""
    problem, program = goal.of, goal.program
    values = problem.values(x)
    if not (np.isfinite(x).all() and np.isfinite(values).all()):
        return Judgement(np.inf, np.inf, np.inf)
    low, high = problem.bounds
    outside = float(np.maximum((low - x) / problem.width, (x - high) / problem.width).max(initial=0.0))
    equal, most = program.equal @ values + program.equal_constants, program.most @ values + program.most_constants
    t = 0.0
    if goal.kind == "ray":
        t = -float(equal @ program.equal_slopes) / float(program.equal_slopes @ program.equal_slopes)
    elif goal.kind == "at most":
        on_ray = program.most_slopes < 0
        t = float((most[on_ray] / -program.most_slopes[on_ray]).max())
    equal, most = equal + t * program.equal_slopes, most + t * program.most_slopes
    violation = float(max(outside, np.abs(equal).max(initial=0.0), most.max(initial=0.0)))
    objective = t if program.has_t else float(program.objective @ values + program.constant)
    optimality = stationarity(goal, x, most) if violation <= FEASIBLE else np.inf
    return Judgement(violation, objective, optimality)


def stationarity(goal: Goal, x: FloatArray, most: FloatArray) -> float:
    """The residual of ``grad objective + multipliers . grad active = 0``, relative to the largest term.

    The multipliers are the best of their signs, by non-negative least squares on unit columns; variables are in units
    of the box. Inequalities and bounds within 1e-4 are active.

    Args:
        goal: the goal.
        x: a feasible point, (n,).
        most: the values of the program's inequalities there.
    """
    problem, program = goal.of, goal.program
    gradients = problem.jacobian(x) * problem.width
    if not np.isfinite(gradients).all():
        return np.inf
    t = np.eye(problem.n + 1)[-1]
    objective = t if program.has_t else np.append(program.objective @ gradients, 0.0)
    equal = np.hstack([program.equal @ gradients, program.equal_slopes[:, None]])
    active = most >= -1e-4
    rows = np.hstack([program.most @ gradients, program.most_slopes[:, None]])[active]
    low, high = problem.bounds
    axes = np.eye(problem.n, problem.n + 1)
    at_low, at_high = x - low <= 1e-4 * problem.width, high - x <= 1e-4 * problem.width
    return residual(objective, equal, np.vstack([rows, -axes[at_low], axes[at_high]]))


def residual(objective: FloatArray, equal: FloatArray, active: FloatArray) -> float:
    """How far gradients are from ``objective + multipliers . (equal, active) = 0``, relative to the largest term.

    Args:
        objective: the gradient of what is minimised, (n,).
        equal: those of equalities, whose multipliers have any sign, (k, n).
        active: those of active inequalities ``<= 0``, whose multipliers are not negative, (p, n).
    """
    columns = np.vstack([equal, -equal, active])
    sizes = np.linalg.norm(columns, axis=1)
    columns, sizes = columns[sizes > 0], sizes[sizes > 0]
    scale = float(np.linalg.norm(objective))
    if scale == 0:
        return 0.0
    if not len(columns):
        return 1.0
    try:
        multipliers, rest = nnls((columns / sizes[:, None]).T, -objective)
    except RuntimeError:  # too many iterations
        return np.inf
    return float(rest / max(scale, multipliers.max()))
