"""The goals of record: what is asked of each problem, and the best answers known; ``solver-goals.json.gz``.

Each loss alone is minimised in the box from several starts (the payoff table), which gives ideal and span. Rays, levels
and directions are seeded. The best answer of a goal is the least objective that SLSQP, IPOPT and ferero find from 16, 8
and 4 starts at tight tolerances and that keeps every constraint to 1e-7; where a paper says which values some variables
have at its optima, half of the starts have them. Goals for which nobody finds a feasible point are left out. Answers
that a trial beat were searched for again, from more starts (KW2, OSY) or on the front that the paper gives (ZDT6);
``found_by`` says so.

To make them anew (two cores, some ten minutes)::

    python -m ferero_lab.bench.solver.best_known
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from scipy import optimize

from ferero.errors import InputError
from ferero_lab.bench.solver.goal import KINDS, Goal, GoalKind
from ferero_lab.bench.solver.judge import judge
from ferero_lab.bench.solver.registry import PROBLEMS, get_problem, half_of
from ferero_lab.bench.solver.smooth import FloatArray, SmoothProblem
from ferero_lab.bench.solver.solvers import SOLVERS, refusal
from ferero_lab.bench.tasks.lines import work_on

__all__ = ["COUNTS", "PLACE", "find_best", "goals_of", "make_goals", "payoff", "read_goals", "write_goals"]

PLACE = Path(__file__).parents[4] / "benchmarks/results/solver-goals.json.gz"
"""The goals of record."""

COUNTS: dict[GoalKind, int] = {"ray": 3, "at most": 3, "threshold": 2, "equality": 2}
"""How many of each kind there are for a problem."""

STARTS = {"SLSQP": 16, "IPOPT": 8, "ferero": 4}  # for the best answer of a goal
_OTHERS = 1e-4  # what the other losses weigh in the payoff table
_ALIKE = 1e-4  # of what a loss usually is: if the payoff table has less, all losses are least at one point
_EXACT = 1e-7  # how well the best answer keeps its constraints


def seed_of(text: str) -> int:
    """A seed that depends on a name alone."""
    return crc32(text.encode())


def payoff(problem: SmoothProblem, starts: int = 16) -> FloatArray:
    """The losses (m, m) where each alone is least in the box, row by row.

    The others count by 1e-4, so that of many points that are least for one loss a good one for the others is taken.
    """
    boxed = replace(problem, family="box") if problem.family == "unbounded" else problem
    points = _good_starts(problem, starts, seed_of(problem.name))
    sample = np.array([problem.values(x) for x in problem.starts(64, 1)])
    sample = sample[np.isfinite(sample).all(axis=1)]
    size = np.ptp(sample, axis=0)
    rows = []
    for i in range(problem.m):
        weights = np.where(np.arange(problem.m) == i, 1.0, _OTHERS) / size[: problem.m]
        table = np.array([row for x in points if (row := _least(boxed, weights, x, size)) is not None])
        rows.append(table[np.argmin(table @ weights)])
    return np.array(rows)


def _good_starts(problem: SmoothProblem, count: int, seed: int) -> FloatArray:
    """Starts (count, n), half of them where the paper says that optima are."""
    points = problem.starts(count, seed)
    known = np.array(problem.known)
    if len(known):
        points[::2] = np.where(np.isnan(known), points[::2], known)
    return points


def _least(problem: SmoothProblem, weights: FloatArray, x: FloatArray, size: FloatArray) -> FloatArray | None:
    """The losses (m,) where SLSQP ends for a sum of them; None if that is not feasible."""
    m, low, width = problem.m, np.array(problem.low), problem.width
    units = size[m:]

    def values(z: FloatArray) -> FloatArray:
        return problem.values(low + z * width)

    def slopes(z: FloatArray) -> FloatArray:
        return problem.jacobian(low + z * width) * width

    constraint = {
        "type": "ineq",
        "fun": lambda z: -values(z)[m:] / units,
        "jac": lambda z: -slopes(z)[m:] / units[:, None],
    }
    found = optimize.minimize(  # type: ignore[call-overload]
        lambda z: weights @ values(z)[:m],
        (x - low) / width,
        jac=lambda z: weights @ slopes(z)[:m],
        method="SLSQP",
        bounds=optimize.Bounds(np.zeros(problem.n), np.ones(problem.n)),
        constraints=[constraint] if problem.p else [],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    reached = values(np.clip(found.x, 0, 1))
    if not np.isfinite(reached).all() or (reached[m:] / units > 1e-6).any():
        return None
    return reached[:m]


def make_goals(problem: SmoothProblem) -> list[Goal]:
    """What is asked of a problem, without answers."""
    table = payoff(problem)
    ideal, worst = table.min(axis=0), table.max(axis=0)
    usual = np.median([problem.values(x)[: problem.m] for x in problem.starts(64, 2)], axis=0) - ideal
    span = np.where(worst - ideal > _ALIKE * usual, worst - ideal, usual)
    at_zero = bool(((ideal >= 0) & (ideal <= 0.05 * span)).all())
    origin = -ideal / span if at_zero else np.full(problem.m, -0.1)
    sample = np.array([problem.values(x)[problem.m :] for x in problem.starts(64, 2)])
    units = np.median(np.abs(sample), axis=0) if problem.p else np.zeros(0)
    rng = np.random.default_rng(seed_of(problem.name) + 1)
    goals = []
    for kind in KINDS:
        for index in range(COUNTS[kind]):
            asked = _ask(kind, index, problem.m, tuple(origin.tolist()), rng)
            goals.append(Goal(problem.name, kind, index, _plain(ideal), _plain(span), _plain(units), **asked))
    return goals


def _ask(kind: GoalKind, index: int, m: int, origin: tuple[float, ...], rng: np.random.Generator) -> dict[str, Any]:
    if kind in ("ray", "at most"):
        least = 0.05 if kind == "at most" and index == 0 else 0.25  # the first of `at most` may well miss the front
        a = rng.uniform(least, 1.0, m)
        if kind == "at most" and index == 0:
            a[rng.integers(m)] = least
        return {"origin": origin, "direction": _plain(a / a.max())}
    if kind == "threshold":
        return {"levels": _plain(rng.uniform(0.15 if m == 2 else 0.4, 0.85, m - 1))}
    return {"levels": _plain(rng.uniform(0.15, 0.85, 1))}


def _plain(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(f"{value:.12g}") for value in values.tolist())


def find_best(goal: Goal, share: float = 1.0) -> Goal:
    """The goal with the best answer that is found from many starts, and who found it.

    Args:
        goal: the goal.
        share: of the usual starts.
    """
    best, losses, by = goal.best, goal.best_losses, goal.found_by
    for name, usual in STARTS.items():
        if refusal(name, goal):
            continue
        starts = max(round(share * usual), 1)
        for x0 in _good_starts(goal.of, starts, seed_of(goal.key) + 2):
            x = SOLVERS[name](goal, x0, True).x
            found = judge(goal, x)
            if found.violation <= _EXACT and (best is None or found.objective < best - 1e-9):
                best, by = float(f"{found.objective:.12g}"), f"{name}, {starts} starts"
                losses = _plain(goal.of.values(x)[: goal.of.m])
    return replace(goal, best=best, best_losses=losses, found_by=by)


def goals_of(name: str) -> dict[str, Any]:
    """All goals of a problem with their answers, as plain data; a piece of work."""
    goals = [find_best(goal) for goal in make_goals(get_problem(name))]
    return {"problem": name, "goals": [goal.to_dict() for goal in goals if goal.best is not None]}


@lru_cache
def read_goals(place: Path = PLACE) -> tuple[Goal, ...]:
    """The goals of record.

    Raises:
        InputError: there is no such file, as where ferero was not installed from its repository.
    """
    if not place.exists():
        raise InputError(
            f"bench solver: expected the goals of record in {place}, found no such file; run it from a clone of the "
            "repository, or make them by python -m ferero_lab.bench.solver.best_known."
        )
    with gzip.open(place, "rt", encoding="utf-8") as file:
        return tuple(Goal.from_dict(one) for one in json.load(file)["goals"])


def write_goals(goals: Iterable[Goal], place: Path = PLACE) -> None:
    """Keep goals; the same give the same bytes."""
    how = (__doc__ or "").split("\n\n")[1].replace("\n", " ")
    text = json.dumps({"how": how, "goals": [goal.to_dict() for goal in goals]}, separators=(",", ":"))
    place.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main(names: list[str], jobs: int) -> None:
    """Make goals anew, of all problems or of those named; each problem is written when it is done."""
    wanted = [problem.name for problem in sorted(PROBLEMS, key=half_of, reverse=True)]
    wanted = [name for name in wanted if not names or name in names]
    found: dict[str, list[Goal]] = {}
    for goal in read_goals() if PLACE.exists() else ():
        found.setdefault(goal.problem, []).append(goal)
    for count, line in enumerate(work_on([partial(goals_of, name) for name in wanted], jobs), 1):
        found[line["problem"]] = [Goal.from_dict(one) for one in line["goals"]]
        write_goals([goal for problem in PROBLEMS for goal in found.get(problem.name, [])])
        print(f"{count} of {len(wanted)}: {line['problem']}, {len(line['goals'])} goals", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:], os.cpu_count() or 1)
