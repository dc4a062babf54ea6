"""Goals, the judge and the solvers on a problem whose answers are known in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ferero_lab.bench.solver.best_known import find_best, make_goals, read_goals
from ferero_lab.bench.solver.goal import KINDS, Goal
from ferero_lab.bench.solver.judge import judge
from ferero_lab.bench.solver.registry import get_problem
from ferero_lab.bench.solver.solvers import SOLVERS, Counter, available, refusal

JOS1 = {"problem": "JOS1, n = 5", "index": 0, "ideal": (0.0, 0.0), "span": (4.0, 4.0), "units": ()}
ALONG = {"origin": (0.0, 0.0), "direction": (1.0, 0.5)}
# F = (s^2, (2 - s)^2) where all coordinates are s
GOALS = {
    "ray": (Goal(kind="ray", **JOS1, **ALONG), 2 / (1 + 0.5**0.5)),
    "at most": (Goal(kind="at most", **JOS1, **ALONG), 2 / (1 + 0.5**0.5)),
    "threshold": (Goal(kind="threshold", **JOS1, levels=(0.25,)), 1.0),
    "equality": (Goal(kind="equality", **JOS1, levels=(0.16,)), 0.8),
}


def answer(kind: str) -> tuple[Goal, np.ndarray]:
    goal, s = GOALS[kind]
    objective = s**2 / 4 if goal.direction else (2 - s) ** 2 / 4
    return replace(goal, best=objective), np.full(5, s)


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_solved_and_stationary(kind: str) -> None:
    goal, x = answer(kind)
    found = judge(goal, x)
    assert found.objective == pytest.approx(goal.best)
    assert found.violation <= 1e-12
    assert found.optimality <= 1e-9
    assert found.is_solved(goal.best)
    assert not found.is_local(goal.best)


@pytest.mark.parametrize("kind", KINDS)
def test_a_point_beside_it_is_not(kind: str) -> None:
    goal, x = answer(kind)
    off = judge(goal, x + np.array([0.1, -0.1, 0, 0, 0]))
    assert not off.is_solved(goal.best)
    assert not off.is_local(goal.best)
    beyond = judge(goal, x + 0.05)
    assert not beyond.is_solved(goal.best)


def test_a_local_solution_counts_apart() -> None:
    goal, x = answer("threshold")
    found = judge(goal, x)
    assert goal.best is not None
    assert found.is_local(goal.best - 0.1)
    assert not found.is_solved(goal.best - 0.1)


def test_values_that_are_not_finite_are_infeasible() -> None:
    goal, _ = answer("ray")
    assert judge(goal, np.full(5, np.nan)).violation == np.inf


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", available())
def test_every_solver_solves_it(name: str, kind: str) -> None:
    goal, _ = answer(kind)
    if refusal(name, goal):
        pytest.skip(refusal(name, goal))
    reply = SOLVERS[name](goal, np.array([3.0, -2.0, 0.5, 1.0, -4.0]), False)
    assert judge(goal, reply.x).is_solved(goal.best), reply
    assert reply.evaluations > 1
    assert reply.seconds > 0


def test_an_evaluation_is_a_new_point() -> None:
    counter = Counter(get_problem("SK1"))
    one, other = np.array([1.0]), np.array([2.0])
    for x in (one, one, other, one):
        counter.values(x)
        counter.slopes(x)
    assert counter.evaluations == 2


def test_goals_are_made_and_answered() -> None:
    goals = make_goals(get_problem("Lov1"))
    assert [goal.kind for goal in goals] == ["ray"] * 3 + ["at most"] * 3 + ["threshold"] * 2 + ["equality"] * 2
    assert goals == make_goals(get_problem("Lov1"))
    assert goals[0].span == pytest.approx((15.57, 15.35), rel=1e-3)
    found = find_best(goals[0], share=0.25)
    kept = next(goal for goal in read_goals() if goal.key == found.key)
    assert found.best == pytest.approx(kept.best, abs=1e-6)
    assert "starts" in found.found_by
    assert Goal.from_dict(kept.to_dict()) == kept


def test_goals_of_record_are_complete() -> None:
    goals = read_goals()
    assert len(goals) > 800
    assert all(goal.best is not None and np.isfinite(goal.best) for goal in goals)
    assert len({goal.key for goal in goals}) == len(goals)
    assert all(goal.preference().m == goal.of.m for goal in goals[::40] if not refusal("ferero", goal))
